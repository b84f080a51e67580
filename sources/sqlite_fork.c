/* Lease files and fork.
 *
 * SQLite keeps books about locks that a child inherits without having the locks; a child that opened the same file by
 * them could see its log deleted by the next process. So a fork waits for the calls under way and closes this process's
 * connections first; they open again when they are needed. */
#include "core/error.h"
#include "host/page.h"
#include "sources/sqlite_source.h"

#include <stdatomic.h>

/* The sources that are open in this process, for fork. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static kz__sqlite_source *list;
static atomic_int connections;

/* Zero in a child that was made without the handlers below (by clone, say): it may own connections of its parent. */
static atomic_bool *ours;
static kz_status setup_status;
static kz_error setup_error;

void kz__sqlite_hang_up(kz__sqlite_source *s)
{
    if (!s->file.db || !atomic_load(ours))
        return;
    kz__sqlite_close(&s->file);
    atomic_fetch_sub(&connections, 1);
}

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (kz__sqlite_source *s = list; s; s = s->next) {
        pthread_mutex_lock(&s->lock);
        kz__sqlite_hang_up(s);
    }
}

static void after_fork(void)
{
    for (kz__sqlite_source *s = list; s; s = s->next)
        pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
    atomic_store(ours, atomic_load(&connections) == 0);
    after_fork();
}

static void set_up_once(void)
{
    void *page = NULL;
    setup_status = kz__page_new(&page, sizeof *ours, &setup_error);
    ours = page;
    if (setup_status)
        return;
    atomic_store(ours, true);
    if (pthread_atfork(before_fork, after_fork, after_fork_in_child))
        setup_status = kz__fail(&setup_error, KZ_NO_MEMORY, "no memory to prepare for fork");
}

void kz__sqlite_enlist(kz__sqlite_source *s)
{
    pthread_mutex_lock(&list_lock);
    s->next = list;
    list = s;
    pthread_mutex_unlock(&list_lock);
}

void kz__sqlite_delist(kz__sqlite_source *s)
{
    pthread_mutex_lock(&list_lock);
    kz__sqlite_source **link = &list;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    pthread_mutex_unlock(&list_lock);
}

/* Locks the source, with its file open. */
kz_status kz__sqlite_enter(kz__sqlite_source *s, kz_error *err)
{
    if (!atomic_load(ours) && atomic_load(&connections))
        return kz__fail(err, KZ_FORKED,
                        "lease file %s: this process was made by clone while its parent had the file open, so it "
                        "cannot use it: make processes with fork, or open the first source behind it",
                        s->file.path);
    atomic_store(ours, true);
    pthread_mutex_lock(&s->lock);
    if (s->file.db) {
        kz_status status = kz__sqlite_still_there(&s->file, err);
        return status ? kz__sqlite_leave(s, status) : KZ_OK;
    }
    kz_status status = kz__sqlite_open(&s->file, err);
    if (status == KZ_OK)
        atomic_fetch_add(&connections, 1);
    else
        pthread_mutex_unlock(&s->lock);
    return status;
}

/* A store that failed is opened and looked at afresh the next time. */
kz_status kz__sqlite_leave(kz__sqlite_source *s, kz_status status)
{
    if (status == KZ_STORE)
        kz__sqlite_hang_up(s);
    pthread_mutex_unlock(&s->lock);
    return status;
}

kz_status kz__sqlite_prepare_for_fork(kz_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_once);
    return setup_status ? kz__fail(err, setup_status, "%s", setup_error.message) : KZ_OK;
}
