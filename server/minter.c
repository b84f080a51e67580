/* IDs for those who have to wait, minted by a thread of its own, so that no loop ever does. Long requests leave room
 * for GET /id, which mints on the loops: half of what a millisecond holds, for as long as anybody asks for it. */
#include "server/app.h"
#include "server/turns.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAITING_MAX 1024
#define OWED_MAX_MS INT64_C(10000) /* of minting: whoever would wait for longer is refused */
#define TIMEOUT_MS  INT64_C(2000)  /* without an ID */
#define TIMEOUT_MIN_MS                                                                                                 \
    20 /* of one attempt, however long the wait for it was: over the end of a used-up millisecond                      \
        */
#define BUSY_NS INT64_C(20000000)  /* so long after GET /id was answered, room is left for it */
#define LOOK_NS INT64_C(100000000) /* between two looks at how much the generator may mint */

typedef struct waiting {
    turn turn; /* the first member */
    http_reply *reply;
    id_shape shape;
    kz_id *ids;
    int64_t since_ns; /* when it came, or its last ID did */
} waiting;

struct minter {
    app *app;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    turns turns;
    bool closing;
    size_t per_ms; /* what the generator may mint */
    /* The thread's own. */
    int64_t looked_ns;
    int64_t next_ns;   /* before this no long one has a turn, while somebody asks for /id */
    int64_t busy_ns;   /* when somebody did */
    uint64_t ids_seen; /* answers of GET /id until then */
};

static int64_t mono_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void finish(waiting *w, kz_status status, const char *why)
{
    if (status)
        problem_of(w->reply, status, why);
    else
        write_ids(w->reply, w->shape, w->ids, w->turn.count);
    free(w->ids);
    http_reply_send(w->reply);
    free(w);
}

/* -------------------------------------------------------------------------------------------------- room for GET /id
 */

/* What a long one gets in one turn. */
static size_t piece_of(const minter *m)
{
    return m->per_ms / 4 ? m->per_ms / 4 : 1;
}

static void look_at_generator(minter *m, int64_t now_ns)
{
    kz_stats stats;
    kz_stats_init(&stats);
    if (now_ns - m->looked_ns < LOOK_NS || kz_stats_get(m->app->gen, &stats))
        return;
    m->looked_ns = now_ns;
    pthread_mutex_lock(&m->lock);
    m->per_ms = stats.throughput_per_ms ? stats.throughput_per_ms : 1;
    pthread_mutex_unlock(&m->lock);
}

static uint64_t ids_answered(const app *a)
{
    uint64_t sum = 0;
    for (unsigned loop = 0; loop < a->loops; loop++)
        sum += atomic_load_explicit(&a->counts[loop][ROUTE_ID].by_class[2], memory_order_relaxed);
    return sum;
}

/* How long a long one has to wait for its turn. */
static int64_t pause_ns(minter *m, int64_t now_ns)
{
    uint64_t answered = ids_answered(m->app);
    if (answered != m->ids_seen) {
        m->ids_seen = answered;
        m->busy_ns = now_ns;
    }
    if (now_ns - m->busy_ns > BUSY_NS)
        return 0;
    return m->next_ns > now_ns ? m->next_ns - now_ns : 0;
}

/* At half the rate; what was slept too long is made up for, up to one piece. */
static void spend(minter *m, size_t count, int64_t now_ns)
{
    int64_t piece_ns = (int64_t)piece_of(m) * 2000000 / (int64_t)m->per_ms;
    if (m->next_ns < now_ns - piece_ns)
        m->next_ns = now_ns - piece_ns;
    m->next_ns += (int64_t)count * 2000000 / (int64_t)m->per_ms;
}

/* -------------------------------------------------------------------------------------------------------- the thread
 */

/* One turn. True: it is over with this one. */
static bool serve(minter *m, waiting *w)
{
    kz_error err = {0};
    int64_t now_ns = mono_ns(), left_ms = TIMEOUT_MS - (now_ns - w->since_ns) / 1000000;
    size_t count = turn_size(&w->turn, piece_of(m));
    if (!w->ids && !(w->ids = malloc(w->turn.count * sizeof *w->ids))) {
        finish(w, KZ_NO_MEMORY, "out of memory");
        return true;
    }
    kz_status status =
        kz_mint(m->app->gen, w->ids + w->turn.given, count, left_ms < TIMEOUT_MIN_MS ? TIMEOUT_MIN_MS : left_ms, &err);
    w->turn.given += count;
    w->since_ns = mono_ns();
    if (count > TURN_SHORT)
        spend(m, count, w->since_ns);
    look_at_generator(m, w->since_ns);
    if (!status && w->turn.given < w->turn.count)
        return false;
    finish(w, status, err.message);
    return true;
}

/* Until somebody comes or a long one may have its turn. The lock is held. */
static void pause_for(minter *m, int64_t ns)
{
    if (!ns) {
        pthread_cond_wait(&m->changed, &m->lock);
        return;
    }
    int64_t until_ns = mono_ns() + ns;
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

static void *run(void *arg)
{
    minter *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!m->closing) {
        int64_t ns = m->turns.waiting ? pause_ns(m, mono_ns()) : 0;
        waiting *w = (waiting *)turns_take(&m->turns, ns == 0);
        if (!w) {
            pause_for(m, ns);
            continue;
        }
        pthread_mutex_unlock(&m->lock);
        bool over = serve(m, w);
        pthread_mutex_lock(&m->lock);
        if (!over)
            turns_add(&m->turns, &w->turn);
    }
    for (waiting *w; (w = (waiting *)turns_take(&m->turns, true));) /* those who asked have gone */
        finish(w, KZ_UNAVAILABLE, "the server ends");
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

http_outcome minter_wait(minter *m, http_reply *reply, id_shape shape, size_t count)
{
    waiting *w = calloc(1, sizeof *w);
    if (!w)
        return problem_of(reply, KZ_NO_MEMORY, "out of memory");
    *w = (waiting){.turn = {.count = count}, .reply = reply, .shape = shape, .since_ns = mono_ns()};
    pthread_mutex_lock(&m->lock);
    bool room = m->turns.waiting < WAITING_MAX && !m->closing &&
                (count <= TURN_SHORT || m->turns.owed <= m->per_ms * OWED_MAX_MS / 2);
    if (room) {
        turns_add(&m->turns, &w->turn);
        pthread_cond_signal(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
    if (room)
        return HTTP_LATER;
    free(w);
    return problem(reply, 503, "too many wait for IDs",
                   "those who wait keep the generator busy for 10 s: raise --throughput, or ask for fewer");
}

minter *minter_start(app *a)
{
    minter *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->app = a;
    m->per_ms = a->settings->ids.throughput_min_per_ms;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    m->looked_ns = mono_ns() - LOOK_NS;
    look_at_generator(m, mono_ns());
    if (pthread_create(&m->thread, NULL, run, m)) {
        free(m);
        return NULL;
    }
    return m;
}

void minter_stop(minter *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}
