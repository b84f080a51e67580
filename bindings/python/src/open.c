/* Opening and closing a generator, and its log lines: where threads that Python does not know meet Python. */
#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------------------------------------------ logging */

/* The sink whose function this thread is in, if it is in one. */
static _Thread_local kzpy_sink *in_log;
/* Set when Python begins to end: whoever waits for the GIL then may wait for ever. */
static _Atomic bool all_silent;

void kzpy_silence(void)
{
    atomic_store(&all_silent, true);
}

void kzpy_log(void *ctx, kz_log_level level, const char *message)
{
    kzpy_sink *sink = ctx;
    if (atomic_load(&sink->silent) || atomic_load(&all_silent))
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *callable = sink->callable;
    if (callable) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Py_INCREF(callable);
        kzpy_sink *outer = in_log;
        in_log = sink;
        PyObject *result = PyObject_CallFunction(callable, "iN", (int)level, kzpy_message(message));
        in_log = outer;
        if (!result)
            PyErr_WriteUnraisable(callable);
        Py_XDECREF(result);
        Py_DECREF(callable);
        PyErr_Restore(type, value, trace);
    }
    PyGILState_Release(gil);
}

kzpy_sink *kzpy_sink_new(PyObject *callable)
{
    kzpy_sink *sink = calloc(1, sizeof *sink);
    if (!sink) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(callable);
    sink->callable = callable;
    return sink;
}

static void free_sink(kzpy_sink *sink)
{
    if (sink)
        Py_CLEAR(sink->callable);
    free(sink);
}

/* Nothing reaches the function from here on; the sink itself may still be written to. */
static void silence(kzpy_sink *sink)
{
    atomic_store(&sink->silent, true);
    Py_CLEAR(sink->callable);
}

/* ------------------------------------------------------------------------------------------------------- opening */

/* A kz_open on a thread of its own. Whoever asked for it may lose patience and leave: then the thread cleans up. */
typedef struct job {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, abandoned;
    char *url, *service, *layout, *meta;
    kz_options options;
    kzpy_sink *sink;
    kz_generator *gen;
    kz_error err;
} job;

static void free_job(job *j)
{
    pthread_cond_destroy(&j->ended);
    pthread_mutex_destroy(&j->lock);
    free(j->url);
    free(j->service);
    free(j->layout);
    free(j->meta);
    free(j);
}

static void *run(void *arg)
{
    job *j = arg;
    kz_generator *gen = NULL;
    kz_error err = {0};
    if (kz_open(&gen, j->url, &j->options, &err))
        gen = NULL;
    pthread_mutex_lock(&j->lock);
    j->gen = gen;
    j->err = err;
    j->done = true;
    bool abandoned = j->abandoned;
    pthread_cond_signal(&j->ended);
    pthread_mutex_unlock(&j->lock);
    if (abandoned) {
        kz_close(gen);
        free(j->sink);
        free_job(j);
    }
    return NULL;
}

/* NULL texts stay NULL. */
static char *copy(const char *text, bool *failed)
{
    char *made = text ? strdup(text) : NULL;
    *failed |= text && !made;
    return made;
}

static job *new_job(const char *url, const kz_options *options, kzpy_sink *sink)
{
    job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    bool failed = false;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&j->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&j->lock, NULL);
    j->options = *options;
    j->options.service = j->service = copy(options->service, &failed);
    j->options.layout = j->layout = copy(options->layout, &failed);
    j->options.meta = j->meta = copy(options->meta, &failed);
    j->url = copy(url, &failed);
    j->sink = sink;
    if (failed) {
        free_job(j);
        return NULL;
    }
    return j;
}

/* Signals are for Python's own threads. */
static int start_thread(void *(*body)(void *), void *arg)
{
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

/* Waits a slice for the job's end. Without the GIL. */
static bool wait_a_slice(job *j)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += KZPY_SLICE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    if (!j->done)
        pthread_cond_timedwait(&j->ended, &j->lock, &until);
    bool done = j->done;
    pthread_mutex_unlock(&j->lock);
    return done;
}

/* Leaves the job to its thread, if that is still at it. */
static bool abandon(job *j)
{
    if (j->sink)
        silence(j->sink);
    pthread_mutex_lock(&j->lock);
    j->abandoned = !j->done;
    bool abandoned = j->abandoned;
    pthread_mutex_unlock(&j->lock);
    return abandoned;
}

kz_generator *kzpy_open(const char *url, const kz_options *options, kzpy_sink *sink)
{
    job *j = new_job(url, options, sink);
    if (!j) {
        free_sink(sink);
        PyErr_NoMemory();
        return NULL;
    }
    int error = start_thread(run, j);
    if (error) {
        free_sink(sink);
        free_job(j);
        kzpy_fail(KZ_SYSTEM, "no thread to open a generator with: %s", strerror(error));
        return NULL;
    }
    bool done = false;
    while (!done) {
        PyThreadState *gil = PyEval_SaveThread();
        done = wait_a_slice(j);
        PyEval_RestoreThread(gil);
        if (!done && PyErr_CheckSignals() && abandon(j))
            return NULL;
    }
    kz_generator *gen = j->gen;
    kz_error err = j->err;
    free_job(j);
    if (PyErr_Occurred()) {
        kzpy_close(gen, sink);
        return NULL;
    }
    if (!gen) {
        free_sink(sink);
        kzpy_raise(&err);
    }
    return gen;
}

/* ------------------------------------------------------------------------------------------------------- closing */

typedef struct farewell {
    kz_generator *gen;
    kzpy_sink *sink;
} farewell;

static void *close_later(void *arg)
{
    farewell *f = arg;
    kz_close(f->gen);
    free(f->sink);
    free(f);
    return NULL;
}

/* A keeper cannot wait for its own end, so another thread does. If there is none to be had the generator stays. */
static void close_from_its_log(kz_generator *gen, kzpy_sink *sink)
{
    silence(sink);
    farewell *f = malloc(sizeof *f);
    if (!f)
        return;
    *f = (farewell){gen, sink};
    if (start_thread(close_later, f))
        free(f);
}

void kzpy_close(kz_generator *gen, kzpy_sink *sink)
{
    if (sink && sink == in_log) {
        close_from_its_log(gen, sink);
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyThreadState *gil = PyEval_SaveThread();
    kz_close(gen);
    PyEval_RestoreThread(gil);
    free_sink(sink);
    PyErr_Restore(type, value, trace);
}
