/* State files: whatever the bytes, the file is refused with a reason or its mark can be moved and read back. */
#include "target.h"

#include "sources/state.h"

#include <sys/mman.h>
#include <unistd.h>

enum { FILE_MAX = 4096 };

/* Opens, and checks that a refusal is explained. */
static kz__state *open_state(const char *path, const kz_layout *layout, kz_id *mark)
{
    kz__state *state = NULL;
    kz_error err;
    kz_status status = kz__state_open(&state, path, layout, 7, mark, &err);
    if (!status)
        return state;
    MUST(!state && status == KZ_STATE);
    must_explain(&err, status);
    return NULL;
}

/* A record's number of twenty digits: the next one has no room to be larger. No file comes that far. */
static bool numbers_run_out(const uint8_t *data, size_t size)
{
    static const char before[] = "record ";
    for (const uint8_t *at = data; (at = memmem(at, (size_t)(data + size - at), before, sizeof before - 1));) {
        at += sizeof before - 1;
        size_t digits = 0;
        while (at + digits < data + size && at[digits] >= '0' && at[digits] <= '9')
            digits++;
        if (digits >= 20)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > FILE_MAX)
        return 0;
    const kz_layout *layout = kz_layout_preset(0);
    int fd = memfd_create("state", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

    kz_id mark = 4711, again = 0;
    kz__state *state = open_state(path, layout, &mark);
    if (!state) {
        MUST(mark == 4711);
    } else {
        kz_id moved = mark ^ 0x5555;
        MUST(kz__state_write(state, moved, NULL) == KZ_OK);
        kz__state_close(state, false);
        state = open_state(path, layout, &again);
        MUST(state && (again == moved || numbers_run_out(data, size)));
        kz__state_close(state, false);
    }
    close(fd);
    return 0;
}
