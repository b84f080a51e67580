/* Memory that a forked child finds zeroed. */
#include "host/page.h"
#include "core/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The pages there are. Each has a word behind it that is not zero, which a child finds zeroed like the rest. */
typedef struct entry {
    char *page;
    size_t size;
    struct entry *other;
} entry;

static entry *pages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int handlers_error;

static volatile uint64_t *word_behind(const entry *e)
{
    return (volatile uint64_t *)(void *)(e->page + e->size);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (const entry *e = pages; e; e = e->other) {
        if (!*word_behind(e))
            continue;
        memset(e->page, 0, e->size);
        /* It stays: in a child of this child it is looked at again. */
    }
    pthread_mutex_init(&lock, NULL);
}

static void add_handlers(void)
{
    handlers_error = pthread_atfork(before_fork, after_fork, in_child);
}

/* Room for the word behind, at an address that suits it. */
static size_t whole(size_t size)
{
    return (size + 7) / 8 * 8;
}

static kz_status map(entry *e, kz_error *err)
{
    size_t size = e->size + sizeof(uint64_t);
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator: %s", strerror(errno));
    if (madvise(mapped, size, MADV_WIPEONFORK)) {
        kz_status status = kz__fail(err, KZ_SYSTEM,
                                    "fork cannot be noticed here (MADV_WIPEONFORK: %s): Linux 4.14 or "
                                    "later is needed",
                                    strerror(errno));
        munmap(mapped, size);
        return status;
    }
    e->page = mapped;
    *word_behind(e) = 1;
    return KZ_OK;
}

kz_status kz__page_new(void **page, size_t size, kz_error *err)
{
    pthread_once(&once, add_handlers);
    entry *e = handlers_error ? NULL : malloc(sizeof *e);
    if (!e)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a generator");
    e->size = whole(size);
    kz_status status = map(e, err);
    if (status) {
        free(e);
        return status;
    }
    pthread_mutex_lock(&lock);
    e->other = pages;
    pages = e;
    pthread_mutex_unlock(&lock);
    *page = e->page;
    return KZ_OK;
}

void kz__page_free(void *page)
{
    entry *found = NULL;
    pthread_mutex_lock(&lock);
    for (entry **e = &pages; *e && !found; e = &(*e)->other) {
        if ((*e)->page == page) {
            found = *e;
            *e = found->other;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return;
    munmap(found->page, found->size + sizeof(uint64_t));
    free(found);
}
