/* The high-water mark of a fixed node, kept on disk ahead of use.
 *
 * The file is two records of one sector each, written in turn: a crash in the middle of a write spoils one, and the
 * other still stands. The newest good record counts. A record is a line of text, so that `cat` shows it. */
#include "sources/state.h"
#include "lib/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_SIZE 512
#define RECORDS     2

struct kz__state {
    int fd;
    char *path;
    uint64_t written; /* counts records; its parity says where the next one goes */
    uint32_t node;
    char layout[KZ_LAYOUT_TEXT_SIZE];
};

static kz_status failed(kz_error *err, const char *path, const char *doing)
{
    return kz__fail(err, KZ_STATE, "state file %s: %s: %s", path, doing, strerror(errno));
}

/* FNV-1a: enough to tell a torn record from a whole one. */
static uint32_t checksum(const char *text, size_t length)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (uint8_t)text[i]) * 16777619u;
    return sum;
}

static void compose(const kz__state *state, uint64_t number, kz_id mark, char record[static RECORD_SIZE])
{
    memset(record, ' ', RECORD_SIZE);
    int length =
        snprintf(record, RECORD_SIZE, "kazahana-state 1 record %" PRIu64 " layout %s node %" PRIu32 " mark %" PRIu64,
                 number, state->layout, state->node, mark);
    uint32_t sum = checksum(record, (size_t)length);
    length += snprintf(record + length, RECORD_SIZE - (size_t)length, " sum %08" PRIx32, sum);
    record[length] = ' ';
    record[RECORD_SIZE - 1] = '\n';
}

typedef struct found {
    uint64_t number;
    kz_id mark;
    uint32_t node;
    char layout[KZ_LAYOUT_TEXT_SIZE];
} found;

/* True if the record is whole. */
static bool read_record(const char *bytes, found *out)
{
    char record[RECORD_SIZE + 1];
    memcpy(record, bytes, RECORD_SIZE);
    record[RECORD_SIZE] = '\0';
    char *sum_at = strstr(record, " sum ");
    uint32_t sum;
    if (!sum_at || sscanf(sum_at, " sum %8" SCNx32, &sum) != 1 || sum != checksum(record, (size_t)(sum_at - record)))
        return false;
    return sscanf(record, "kazahana-state 1 record %" SCNu64 " layout %47s node %" SCNu32 " mark %" SCNu64,
                  &out->number, out->layout, &out->node, &out->mark) == 4;
}

/* Reads what the file holds into *newest; a file without any byte holds nothing. */
static kz_status read_file(const kz__state *state, bool *empty, found *newest, kz_error *err)
{
    char bytes[RECORD_SIZE * RECORDS];
    ssize_t length = pread(state->fd, bytes, sizeof bytes, 0);
    if (length < 0)
        return failed(err, state->path, "cannot be read");
    *empty = length == 0;
    bool any = false;
    for (size_t i = 0; i < RECORDS && (size_t)length >= (i + 1) * RECORD_SIZE; i++) {
        found record;
        if (read_record(bytes + i * RECORD_SIZE, &record) && (!any || record.number > newest->number)) {
            *newest = record;
            any = true;
        }
    }
    if (*empty || any)
        return KZ_OK;
    return kz__fail(
        err, KZ_STATE,
        "state file %s is damaged: no whole record in it. If you know that the clock was not set back since "
        "its last use, remove it; else use another node",
        state->path);
}

/* Locks of this kind are the process's own: a forked child does not keep its parent's alive. */
static kz_status lock_file(const kz__state *state, kz_error *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(state->fd, F_SETLK, &lock) == 0)
        return KZ_OK;
    if (errno != EACCES && errno != EAGAIN)
        return failed(err, state->path, "cannot be locked");
    fcntl(state->fd, F_GETLK, &lock);
    return kz__fail(err, KZ_IN_USE, "state file %s is in use by process %ld: one process for each node", state->path,
                    (long)lock.l_pid);
}

/* A new file must survive a crash by its name too. */
static kz_status sync_folder(const char *path, kz_error *err)
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy)
        return kz__fail(err, KZ_STATE, "state file: a path of %zu characters is too long", strlen(path));
    strcpy(copy, path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(err, path, "its folder cannot be opened");
    int result = fsync(fd);
    int error = errno;
    close(fd);
    errno = error;
    /* Some file systems cannot sync a folder and say so; nothing better can be done there. */
    return result == 0 || errno == EINVAL ? KZ_OK : failed(err, path, "its folder cannot be synced");
}

static kz_status load(kz__state *state, const kz_layout *layout, kz_id *mark, kz_error *err)
{
    kz_status status = lock_file(state, err);
    if (status)
        return status;
    bool empty;
    found newest = {0};
    status = read_file(state, &empty, &newest, err);
    if (status)
        return status;
    kz_layout_text(layout, state->layout);
    if (empty) {
        status = sync_folder(state->path, err);
    } else if (newest.node != state->node || strcmp(newest.layout, state->layout) != 0) {
        status =
            kz__fail(err, KZ_STATE,
                     "state file %s belongs to node %" PRIu32 " of layout %s, not to node %" PRIu32 " of %s: use one "
                     "file for each node and layout",
                     state->path, newest.node, newest.layout, state->node, state->layout);
    }
    if (status)
        return status;
    state->written = newest.number;
    *mark = newest.mark;
    return KZ_OK;
}

kz_status kz__state_open(kz__state **out, const char *path, const kz_layout *layout, uint32_t node, kz_id *mark,
                         kz_error *err)
{
    if (!*path)
        return kz__fail(err, KZ_INVALID, "state= names no file");
    kz__state *state = calloc(1, sizeof *state);
    if (!state || !(state->path = strdup(path))) {
        free(state);
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a state file");
    }
    state->node = node;
    state->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    kz_status status = state->fd < 0 ? failed(err, path, "cannot be opened") : load(state, layout, mark, err);
    if (status) {
        kz__state_close(state);
        return status;
    }
    *out = state;
    return KZ_OK;
}

kz_status kz__state_write(kz__state *state, kz_id mark, kz_error *err)
{
    uint64_t number = state->written + 1;
    char record[RECORD_SIZE];
    compose(state, number, mark, record);
    off_t place = (off_t)(number % RECORDS) * RECORD_SIZE;
    ssize_t length = pwrite(state->fd, record, sizeof record, place);
    if (length >= 0 && length < RECORD_SIZE) {
        errno = ENOSPC;
        length = -1;
    }
    if (length < 0 || fdatasync(state->fd))
        return failed(err, state->path, "cannot be written");
    /* Only now: a write that failed is tried again in the same place, never over the record that still stands. */
    state->written = number;
    return KZ_OK;
}

bool kz__state_is_file(const kz__state *state, const char *path)
{
    struct stat mine, other;
    return fstat(state->fd, &mine) == 0 && stat(path, &other) == 0 && mine.st_dev == other.st_dev &&
           mine.st_ino == other.st_ino;
}

void kz__state_close(kz__state *state)
{
    if (!state)
        return;
    if (state->fd >= 0)
        close(state->fd);
    free(state->path);
    free(state);
}
