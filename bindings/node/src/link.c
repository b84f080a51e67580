/* The way from any thread to an environment's loop, and threads for what may take long. */
#include "addon.h"

#include <signal.h>
#include <stdlib.h>

static void deliver(napi_env env, napi_value callback, void *context, void *data)
{
    (void)callback;
    (void)context;
    kzn_message *message = data;
    message->deliver(message, env);
}

void kzn_link_end(kzn_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->alive = false;
    kzn_errands_end(link);
    pthread_mutex_unlock(&link->lock);
    kzn_handles_end(link);
}

/* Runs before Node ends the thread-safe function: whoever calls that later would touch freed memory. */
static void end(void *link)
{
    kzn_link_end(link);
}

static void forget(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    kzn_link_drop(data);
}

kzn_link *kzn_link_new(napi_env env)
{
    kzn_link *link = calloc(1, sizeof *link);
    napi_value name;
    if (!link)
        return NULL;
    pthread_mutex_init(&link->lock, NULL);
    atomic_store(&link->refs, 1);
    link->alive = true;
    KZN_TRY(napi_create_string_utf8(env, "kazahana", NAPI_AUTO_LENGTH, &name));
    KZN_TRY(napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL, NULL, deliver, &link->to_loop));
    KZN_TRY(napi_unref_threadsafe_function(env, link->to_loop));
    KZN_TRY(napi_set_instance_data(env, link, forget, NULL));
    /* The last hook to be added is the first to run. */
    KZN_TRY(napi_add_env_cleanup_hook(env, end, link));
    return link;
}

kzn_link *kzn_link_of(napi_env env)
{
    void *link = NULL;
    KZN_TRY(napi_get_instance_data(env, &link));
    return link;
}

void kzn_link_keep(kzn_link *link)
{
    atomic_fetch_add(&link->refs, 1);
}

void kzn_link_drop(kzn_link *link)
{
    if (atomic_fetch_sub(&link->refs, 1) > 1)
        return;
    pthread_mutex_destroy(&link->lock);
    free(link);
}

bool kzn_post(kzn_link *link, kzn_message *message)
{
    pthread_mutex_lock(&link->lock);
    bool posted =
        link->alive && napi_call_threadsafe_function(link->to_loop, message, napi_tsfn_nonblocking) == napi_ok;
    pthread_mutex_unlock(&link->lock);
    return posted;
}

/* ------------------------------------------------------------------------------------------------------- jobs */

int kzn_thread(void *(*body)(void *), void *arg)
{
    /* Signals are for Node's own threads. */
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return error;
}

static void job_done(kzn_message *message, napi_env env)
{
    kzn_job *job = (kzn_job *)message;
    kzn_link *link = job->link;
    napi_value callback = NULL;
    if (env) {
        if (--link->pending == 0)
            napi_unref_threadsafe_function(env, link->to_loop);
        napi_get_reference_value(env, job->callback, &callback);
        napi_delete_reference(env, job->callback);
    }
    job->done(job, env, callback);
    kzn_link_drop(link);
}

static void *run_job(void *arg)
{
    kzn_job *job = arg;
    job->run(job);
    if (!kzn_post(job->link, &job->message))
        job_done(&job->message, NULL);
    return NULL;
}

bool kzn_start(napi_env env, kzn_job *job, napi_value callback)
{
    kz_error err;
    job->message.deliver = job_done;
    job->link = kzn_link_of(env);
    if (!job->link || napi_create_reference(env, callback, 1, &job->callback) != napi_ok)
        return false;
    kzn_link_keep(job->link);
    if (job->link->pending++ == 0)
        napi_ref_threadsafe_function(env, job->link->to_loop);
    int error = kzn_thread(run_job, job);
    if (!error)
        return true;
    if (--job->link->pending == 0)
        napi_unref_threadsafe_function(env, job->link->to_loop);
    napi_delete_reference(env, job->callback);
    kzn_link_drop(job->link);
    kzn_fail(&err, KZ_SYSTEM, "no thread to be had (error %d): the process has too many", error);
    kzn_throw(env, &err);
    return false;
}
