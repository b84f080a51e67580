/* Introduces kz_try_next: IDs in an event loop, which must not sleep. KZ_AGAIN means "set a timer and ask again". */
#include <kazahana.h>
#include <poll.h>
#include <stdio.h>

enum { WANTED = 2000 };

int main(void)
{
    /* 8 sequence bits: 256 IDs a millisecond, so that 2000 at once cannot be had without waiting. */
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, "static:11", NULL, &err)) {
        fprintf(stderr, "event_loop: %s\n", err.message);
        return 1;
    }

    int got = 0, again = 0, result = 0;
    kz_id last = 0;
    while (got < WANTED && result == 0) {
        kz_id id;
        switch (kz_try_next(gen, &id)) {
        case KZ_OK:
            if (id <= last) {
                fprintf(stderr, "event_loop: an ID is not above the one before\n");
                result = 1;
            }
            last = id;
            got++;
            break;
        case KZ_AGAIN:
            again++;
            /* Here a real loop serves its other descriptors until the timer fires. */
            poll(NULL, 0, 1);
            break;
        default:
            fprintf(stderr, "event_loop: no ID\n");
            result = 1;
        }
    }
    if (result == 0)
        printf("%d IDs; the loop was free for other work %d times meanwhile\n", got, again);
    kz_close(gen);
    return result;
}
