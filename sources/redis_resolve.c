/* A host's addresses, within a time. The system's resolver has a patience of its own (5 s for each name server and try)
 * and cannot be told to stop, so it works in a thread that can be left to itself. */
#include "core/error.h"
#include "sources/redis_wire.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define LEFT_MAX 8 /* threads that wait for a name server at one time */

static const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

/* Belongs to both sides; whoever is done last frees it. */
typedef struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool finished, left;
    int failure;
    struct addrinfo *list;
    char host[256], port[8];
} lookup;

static atomic_int under_way;

static void lookup_free(lookup *l)
{
    if (l->list)
        freeaddrinfo(l->list);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *look_up(void *ctx)
{
    lookup *l = ctx;
    struct addrinfo *list = NULL;
    int failure = getaddrinfo(l->host, l->port, &wanted, &list);
    pthread_mutex_lock(&l->lock);
    l->failure = failure;
    l->list = failure ? NULL : list;
    l->finished = true;
    bool left = l->left;
    pthread_cond_signal(&l->done);
    pthread_mutex_unlock(&l->lock);
    if (left)
        lookup_free(l);
    atomic_fetch_sub(&under_way, 1);
    return NULL;
}

static bool start(lookup *l)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = atomic_fetch_add(&under_way, 1) < LEFT_MAX && pthread_create(&thread, NULL, look_up, l) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    else
        atomic_fetch_sub(&under_way, 1);
    return started;
}

/* False: not in time; the lookup is the thread's from then on. */
static bool wait_for(lookup *l, int64_t deadline_ms)
{
    struct timespec end;
    int64_t left_ms = deadline_ms - kz__wire_now_ms();
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t end_ns = (int64_t)end.tv_nsec + (left_ms > 0 ? left_ms : 0) * 1000000;
    end.tv_sec += (time_t)(end_ns / 1000000000);
    end.tv_nsec = (long)(end_ns % 1000000000);
    pthread_mutex_lock(&l->lock);
    while (!l->finished && pthread_cond_timedwait(&l->done, &l->lock, &end) == 0)
        ;
    bool finished = l->finished;
    l->left = !finished;
    pthread_mutex_unlock(&l->lock);
    return finished;
}

static lookup *lookup_new(const kz__redis_address *address)
{
    pthread_condattr_t monotonic;
    lookup *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    strcpy(l->host, address->host);
    strcpy(l->port, address->port);
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return l;
}

kz_status kz__wire_resolve(const kz__redis_address *address, int64_t deadline_ms, struct addrinfo **list, kz_error *err)
{
    struct addrinfo numeric = wanted;
    numeric.ai_flags = AI_NUMERICHOST;
    if (getaddrinfo(address->host, address->port, &numeric, list) == 0)
        return KZ_OK;
    lookup *l = lookup_new(address);
    if (!l)
        return kz__fail(err, KZ_NO_MEMORY, "no memory for a name");
    if (!start(l)) {
        lookup_free(l);
        return kz__fail(err, KZ_UNAVAILABLE, "%s: no thread to look up %s with; is the name server down?",
                        address->name, address->host);
    }
    if (!wait_for(l, deadline_ms))
        return kz__fail(err, KZ_UNAVAILABLE, "%s: no address for %s in time: is the name server down?", address->name,
                        address->host);
    kz_status status = KZ_OK;
    if (l->failure)
        status = kz__fail(err, KZ_UNAVAILABLE, "%s: no address for %s: %s", address->name, address->host,
                          gai_strerror(l->failure));
    *list = l->list;
    l->list = NULL;
    lookup_free(l);
    return status;
}
