/* The thread that keeps a generator supplied: core/keeper.c decides when, this does the asking. */
#include "lib/error.h"
#include "lib/generator.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t boot_ms(const kz_generator *gen)
{
    return gen->clock.boot_ns(gen->clock.ctx) / KZ__NS_PER_MS;
}

/* Drops what is over and adds a rectangle. The lock is held. */
static kz_status add_rect(kz__hot *hot, const kz__rect *rect, int64_t now_ms, kz_error *err)
{
    if (hot->rect_count == hot->rect_room) {
        size_t room = hot->rect_room ? 2 * hot->rect_room : 4;
        kz__rect *grown = realloc(hot->rects, room * sizeof *grown);
        if (!grown)
            return kz__fail(err, KZ_NO_MEMORY, "no memory for another rectangle");
        hot->rects = grown;
        hot->rect_room = room;
    }
    kz__freeze(hot);
    size_t kept = 0;
    for (size_t i = 0; i < hot->rect_count; i++)
        if ((int64_t)hot->rects[i].end_ms > now_ms)
            hot->rects[kept++] = hot->rects[i];
    hot->rects[kept++] = *rect;
    hot->rect_count = kept;
    return KZ_OK;
}

static kz_status take_over(kz_generator *gen, const kz__grant *grant, uint64_t from_ms, kz_error *err)
{
    kz__hot *hot = gen->hot;
    kz_status status = add_rect(hot, &grant->rect, kz__ms(kz__id_ns(gen)), err);
    if (status)
        return status;
    if (hot->floor < grant->resume) {
        hot->floor = grant->resume;
        hot->resume_ms = (int64_t)((grant->resume - 1) >> gen->slot_bits) + 1;
        hot->grace_ms = grant->grace_ms;
    }
    bool endless = grant->rect.end_ms == kz__end_of_time_ms(&gen->layout);
    kz__keeper_granted(&hot->keeper, boot_ms(gen), endless ? KZ__NEVER_MS : (int64_t)(grant->rect.end_ms - from_ms),
                       gen->source->renew_at);
    return KZ_OK;
}

kz_status kz__acquire(kz_generator *gen, kz_error *err)
{
    kz__hot *hot = gen->hot;
    kz_error why;
    kz__grant grant;
    pthread_mutex_lock(&hot->lock);
    int64_t now_ms = kz__ms(kz__id_ns(gen));
    uint64_t from_ms = now_ms > 0 ? (uint64_t)now_ms : 0;
    if (from_ms < kz__position(hot) >> gen->slot_bits)
        from_ms = kz__position(hot) >> gen->slot_bits;
    pthread_mutex_unlock(&hot->lock);

    kz_status status = gen->source->ops->acquire(gen->source, from_ms, &grant, &why);

    pthread_mutex_lock(&hot->lock);
    if (status == KZ_OK)
        status = take_over(gen, &grant, from_ms, &why);
    if (status) {
        kz__keeper_failed(&hot->keeper, boot_ms(gen), hot->random);
        hot->keeper_error = why;
    }
    pthread_cond_broadcast(&hot->changed);
    pthread_mutex_unlock(&hot->lock);
    if (status && err)
        *err = why;
    return status;
}

/* Waits until `due_ms`, or until something changed. The lock is held before and after. */
static void rest(kz_generator *gen, int64_t due_ms)
{
    kz__hot *hot = gen->hot;
    if (due_ms == KZ__NEVER_MS) {
        pthread_cond_wait(&hot->changed, &hot->lock);
        return;
    }
    int64_t pause_ms = due_ms - boot_ms(gen);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += pause_ms % 1000 * KZ__NS_PER_MS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&hot->changed, &hot->lock, &until);
}

static void *keep(void *arg)
{
    kz_generator *gen = arg;
    kz__hot *hot = gen->hot;
    pthread_mutex_lock(&hot->lock);
    while (!hot->closing) {
        int64_t due_ms = kz__keeper_due(&hot->keeper);
        if (due_ms > boot_ms(gen)) {
            rest(gen, due_ms);
            continue;
        }
        pthread_mutex_unlock(&hot->lock);
        kz_error why;
        if (kz__acquire(gen, &why))
            kz__log(gen, KZ_LOG_ERROR, "%s; minting goes on to the end of the window, trying again", why.message);
        pthread_mutex_lock(&hot->lock);
    }
    pthread_mutex_unlock(&hot->lock);
    return NULL;
}

kz_status kz__keeper_start(kz_generator *gen, kz_error *err)
{
    /* The program's signals are the program's: none of them is delivered to this thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&gen->keeper_thread, NULL, keep, gen);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return kz__fail(err, KZ_SYSTEM, "no thread for the keeper: %s", strerror(error));
    gen->hot->keeper_runs = true;
    return KZ_OK;
}

void kz__keeper_stop(kz_generator *gen)
{
    kz__hot *hot = gen->hot;
    if (!hot->keeper_runs)
        return;
    pthread_mutex_lock(&hot->lock);
    hot->closing = true;
    pthread_cond_broadcast(&hot->changed);
    pthread_mutex_unlock(&hot->lock);
    pthread_join(gen->keeper_thread, NULL);
    hot->keeper_runs = false;
}
