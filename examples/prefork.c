/* Introduces KZ_FORKED: after fork() a child opens a generator of its own, with a node number of its own. */
#include <inttypes.h>
#include <kazahana.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 3 };

static int work(kz_generator *parents, int number)
{
    /* The parent's generator is of no use here, and says so instead of minting twins. */
    kz_id id;
    kz_status status = kz_next(parents, &id);
    if (status != KZ_FORKED) {
        fprintf(stderr, "prefork: the parent's generator gave %s in a child\n", kz_status_name(status));
        return 1;
    }
    kz_close(parents); /* frees the child's copy, and touches nothing of the parent's */

    char url[32];
    snprintf(url, sizeof url, "static:%d", 100 + number);
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, url, NULL, &err)) {
        fprintf(stderr, "prefork: %s\n", err.message);
        return 1;
    }
    status = kz_next(gen, &id);
    kz_close(gen);
    if (status != KZ_OK) {
        fprintf(stderr, "prefork: %s\n", kz_status_text(status));
        return 1;
    }
    printf("worker %d: %" PRIu64 "\n", number, id);
    fflush(stdout);
    return 0;
}

int main(void)
{
    kz_generator *gen;
    kz_error err;
    if (kz_open(&gen, "static:99", NULL, &err)) {
        fprintf(stderr, "prefork: %s\n", err.message);
        return 1;
    }

    int result = 0;
    for (int i = 0; i < WORKERS; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(work(gen, i));
        if (child < 0) {
            perror("prefork: fork");
            result = 1;
        }
    }
    for (int status; wait(&status) > 0;) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            result = 1;
    }

    /* The parent goes on as before. */
    kz_id id;
    if (kz_next(gen, &id) != KZ_OK) {
        fprintf(stderr, "prefork: the parent lost its generator\n");
        result = 1;
    } else {
        printf("parent:   %" PRIu64 "\n", id);
    }
    kz_close(gen);
    return result;
}
