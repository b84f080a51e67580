/* Which lease file this is: whether what is open is what the path leads to, and whether it is as new as it was.
 *
 * A file may be replaced under those who have it open: moved, copied over, restored, or robbed of its log. Then they
 * and whoever opens it next would be granted from two tables. So a commit counts only if the file, its log (-wal) and
 * the index of that (-shm) are still those at the path: a newcomer sees it then. And an older copy shows: its inode is
 * another one than it remembers, or its generation is below the mark, a small file beside it. The mark is not synced:
 * it is exact while the machine stays up. */
#include "core/error.h"
#include "sources/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAIN, LOG, INDEX, FILES };
static const char *const suffixes[FILES] = {"", "-wal", "-shm"};

#define MARK_SIZE 21 /* 20 digits and a newline */

/* SQLite shares one log index among all connections of a process to one file, so they also share what it is. */
struct kz__sqlite_identity {
    dev_t dev[FILES];
    ino_t ino[FILES];
    unsigned users;
    struct kz__sqlite_identity *next;
};

/* Taken only by those who hold a source's lock, so it is free at a fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kz__sqlite_identity *identities;

static bool look(const kz__sqlite *file, int which, struct stat *found)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", file->path, suffixes[which]);
    return stat(path, found) == 0;
}

static kz__sqlite_identity *find(const struct stat *main)
{
    kz__sqlite_identity *i = identities;
    while (i && (i->dev[MAIN] != main->st_dev || i->ino[MAIN] != main->st_ino))
        i = i->next;
    return i;
}

kz_status kz__sqlite_identify(kz__sqlite *file, kz_error *err)
{
    struct stat found[FILES];
    for (int f = 0; f < FILES; f++)
        if (!look(file, f, &found[f]))
            return kz__fail(err, KZ_STORE, "lease file %s%s: %s", file->path, suffixes[f], strerror(errno));
    pthread_mutex_lock(&lock);
    kz__sqlite_identity *i = find(&found[MAIN]);
    if (!i && (i = calloc(1, sizeof *i))) {
        for (int f = 0; f < FILES; f++) {
            i->dev[f] = found[f].st_dev;
            i->ino[f] = found[f].st_ino;
        }
        i->next = identities;
        identities = i;
    }
    if (i)
        i->users++;
    pthread_mutex_unlock(&lock);
    file->identity = i;
    if (!i)
        return kz__fail(err, KZ_NO_MEMORY, "lease file %s: out of memory", file->path);
    file->first_dev = found[MAIN].st_dev;
    file->first_ino = found[MAIN].st_ino;
    char mark[PATH_MAX];
    snprintf(mark, sizeof mark, "%s-mark", file->path);
    file->mark = open(mark, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return kz__sqlite_still_there(file, err);
}

void kz__sqlite_forget(kz__sqlite *file)
{
    if (!file->identity)
        return;
    pthread_mutex_lock(&lock);
    if (--file->identity->users == 0) {
        kz__sqlite_identity **link = &identities;
        while (*link != file->identity)
            link = &(*link)->next;
        *link = file->identity->next;
        free(file->identity);
    }
    pthread_mutex_unlock(&lock);
    file->identity = NULL;
    if (file->mark >= 0)
        close(file->mark);
    file->mark = -1;
}

/* While it is open all three count; between two times that it is, the file alone. */
kz_status kz__sqlite_still_there(const kz__sqlite *file, kz_error *err)
{
    struct stat now;
    const kz__sqlite_identity *i = file->identity;
    bool there =
        !file->first_ino || (look(file, MAIN, &now) && now.st_dev == file->first_dev && now.st_ino == file->first_ino);
    for (int f = LOG; f < FILES && there && i; f++)
        there = look(file, f, &now) && now.st_dev == i->dev[f] && now.st_ino == i->ino[f];
    if (there)
        return KZ_OK;
    return kz__fail(err, KZ_STORE,
                    "lease file %s: it was removed or replaced while in use, so others may be granted the same: put "
                    "it back, or stop all who use it and start anew with ?amnesia=quarantine",
                    file->path);
}

bool kz__sqlite_is_detached(const kz__sqlite *file)
{
    return kz__sqlite_still_there(file, NULL) != KZ_OK;
}

static uint64_t read_mark(const kz__sqlite *file)
{
    char text[MARK_SIZE + 1] = "";
    if (file->mark < 0 || pread(file->mark, text, MARK_SIZE, 0) != MARK_SIZE || text[MARK_SIZE - 1] != '\n')
        return 0;
    return strtoull(text, NULL, 10);
}

void kz__sqlite_raise_mark(const kz__sqlite *file, uint64_t generation)
{
    char text[MARK_SIZE + 1];
    if (file->mark < 0 || read_mark(file) >= generation)
        return;
    snprintf(text, sizeof text, "%020" PRIu64 "\n", generation);
    /* What cannot be written is as good as lost in a crash: the mark only ever says "at least". */
    if (pwrite(file->mark, text, MARK_SIZE, 0) < 0)
        return;
}

void kz__sqlite_place_now(const kz__sqlite *file, uint64_t generation, kz__place *kept,
                          char name[static KZ__PLACE_SIZE])
{
    struct statx born = {0};
    (void)statx(AT_FDCWD, file->path, 0, STATX_BTIME, &born);
    uint64_t mark = read_mark(file);
    bool behind = generation < mark;
    int length = snprintf(name, KZ__PLACE_SIZE, "inode %" PRIu64 " of %lld.%09u", (uint64_t)file->first_ino,
                          (long long)born.stx_btime.tv_sec, born.stx_btime.tv_nsec);
    /* The same file as ever, and as new as ever; else it is another place, which the mark tells from the one before. */
    if (!behind && strncmp(kept->name, name, (size_t)length) == 0)
        snprintf(name, KZ__PLACE_SIZE, "%s", kept->name);
    else
        snprintf(name + length, KZ__PLACE_SIZE - (size_t)length, " at %" PRIu64, mark);
    /* A file made anew beside the mark of the one before has forgotten everything. */
    if (behind && !*kept->name)
        strcpy(kept->name, "lost");
}
