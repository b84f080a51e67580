/* The high-water mark of a fixed node, kept on disk ahead of use.
 *
 * The file is two records of one sector each, written in turn: a crash in the middle of a write spoils one, and the
 * other still stands. The newest good record counts. A file gets its name only when its first record is durable, so
 * one without a good record was damaged. A record is a line of text, so that `cat` shows it. */
#include "sources/state.h"
#include "core/error.h"

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

/* False: errno says why. */
static bool write_record(const kz__state *state, int fd, uint64_t number, kz_id mark)
{
    char record[RECORD_SIZE];
    compose(state, number, mark, record);
    ssize_t length = pwrite(fd, record, sizeof record, (off_t)(number % RECORDS) * RECORD_SIZE);
    if (length >= 0 && length < RECORD_SIZE) {
        errno = ENOSPC;
        return false;
    }
    return length >= 0 && fdatasync(fd) == 0;
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

/* The newest whole record. */
static kz_status read_file(const kz__state *state, found *newest, kz_error *err)
{
    char bytes[RECORD_SIZE * RECORDS];
    ssize_t length = pread(state->fd, bytes, sizeof bytes, 0);
    if (length < 0)
        return failed(err, state->path, "cannot be read");
    bool any = false;
    for (size_t i = 0; i < RECORDS && (size_t)length >= (i + 1) * RECORD_SIZE; i++) {
        found record;
        if (read_record(bytes + i * RECORD_SIZE, &record) && (!any || record.number > newest->number)) {
            *newest = record;
            any = true;
        }
    }
    if (any)
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

/* Makes a file with a first record under another name, and gives it its own only if nobody else was quicker. */
static kz_status create(const kz__state *state, kz_error *err)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", state->path);
    if (length < 0 || (size_t)length >= sizeof temporary)
        return kz__fail(err, KZ_STATE, "state file: a path of %zu characters is too long", strlen(state->path));
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return failed(err, state->path, "cannot be made");
    bool made = write_record(state, fd, 0, 0) && (link(temporary, state->path) == 0 || errno == EEXIST);
    kz_status status = made ? KZ_OK : failed(err, state->path, "cannot be made");
    unlink(temporary);
    close(fd);
    return status ? status : sync_folder(state->path, err);
}

static kz_status open_file(kz__state *state, kz_error *err)
{
    state->fd = open(state->path, O_RDWR | O_CLOEXEC);
    if (state->fd < 0 && errno == ENOENT) {
        kz_status status = create(state, err);
        if (status)
            return status;
        state->fd = open(state->path, O_RDWR | O_CLOEXEC);
    }
    return state->fd < 0 ? failed(err, state->path, "cannot be opened") : KZ_OK;
}

static kz_status load(kz__state *state, kz_id *mark, kz_error *err)
{
    kz_status status = open_file(state, err);
    if (status == KZ_OK)
        status = lock_file(state, err);
    found newest = {0};
    if (status == KZ_OK)
        status = read_file(state, &newest, err);
    if (status)
        return status;
    if (newest.node != state->node || strcmp(newest.layout, state->layout) != 0)
        return kz__fail(err, KZ_STATE,
                        "state file %s belongs to node %" PRIu32 " of layout %s, not to node %" PRIu32
                        " of %s: use one file for each node and layout",
                        state->path, newest.node, newest.layout, state->node, state->layout);
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
    state->fd = -1;
    state->node = node;
    kz_layout_text(layout, state->layout);
    kz_status status = load(state, mark, err);
    if (status) {
        kz__state_close(state, false);
        return status;
    }
    *out = state;
    return KZ_OK;
}

kz_status kz__state_write(kz__state *state, kz_id mark, kz_error *err)
{
    /* A mark in a file that nobody will find again protects nothing. */
    if (!kz__state_is_file(state, state->path))
        return kz__fail(err, KZ_STATE,
                        "state file %s was removed or replaced while in use: its mark is lost. Stop, and start again "
                        "after three seconds",
                        state->path);
    if (!write_record(state, state->fd, state->written + 1, mark))
        return failed(err, state->path, "cannot be written");
    /* Only now: a write that failed is tried again in the same place, never over the record that still stands. */
    state->written++;
    return KZ_OK;
}

bool kz__state_is_file(const kz__state *state, const char *path)
{
    struct stat mine, other;
    return fstat(state->fd, &mine) == 0 && stat(path, &other) == 0 && mine.st_dev == other.st_dev &&
           mine.st_ino == other.st_ino && mine.st_size > 0;
}

void kz__state_close(kz__state *state, bool forked)
{
    if (!state)
        return;
    if (state->fd >= 0 && !forked)
        close(state->fd);
    free(state->path);
    free(state);
}
