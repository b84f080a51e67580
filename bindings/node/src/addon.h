/* The addon from the inside. kazahana.h says what the library's calls mean; lib/ has what JavaScript sees of this.
 *
 * Nothing on an event loop waits. What may take long (opening, closing, a lease table) is a job on a thread of its own:
 * libuv's pool would keep process.exit() waiting for it. Threads reach an environment through its link, which dies
 * before the environment does. */
#ifndef KZN_ADDON_H
#define KZN_ADDON_H

#define NAPI_VERSION 8
#include <node_api.h>

#include <kazahana.h>
#include <pthread.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------------ environments */

/* What goes to a loop. `deliver` frees it; `env` is NULL if the environment is gone. */
typedef struct kzn_message {
    void (*deliver)(struct kzn_message *message, napi_env env);
} kzn_message;

typedef struct kzn_errand kzn_errand;
typedef struct kzn_handle kzn_handle;

/* One for each environment (the main thread, a worker): the way to its loop. Counted, for threads keep it longer. */
typedef struct kzn_link {
    pthread_mutex_t lock;
    bool alive; /* under the lock; false for good once the environment ends */
    napi_threadsafe_function to_loop;
    kzn_errand *errands; /* under the lock: those that a thread waits for */
    _Atomic unsigned refs;

    /* The loop's own thread only. */
    unsigned pending;    /* jobs that keep the loop alive */
    kzn_handle *handles; /* generators that are open here */
    napi_ref make_error; /* (details) -> Error */
    napi_ref dispatch;   /* (kind, provider, request, errand): an errand for a provider written in JavaScript */
    napi_ref log;        /* (level, message) */
    uint64_t *out;       /* what the shared view shows: [0] an ID, [1] microseconds until it is worth asking again */
} kzn_link;

kzn_link *kzn_link_new(napi_env env);
kzn_link *kzn_link_of(napi_env env);
void kzn_link_keep(kzn_link *link);
void kzn_link_drop(kzn_link *link);
/* Nothing reaches the environment any more, errands that wait for it fail, and what it holds is given back. */
void kzn_link_end(kzn_link *link);
/* False: the environment is gone, and the message is still the caller's. */
bool kzn_post(kzn_link *link, kzn_message *message);

/* ------------------------------------------------------------------------------------------------------- jobs */

typedef struct kzn_job {
    kzn_message message;
    void (*run)(struct kzn_job *job); /* on a thread of its own */
    /* Afterwards, once: on the loop with the callback, or with `env` NULL, on any thread, if the environment is gone.
     * Frees the job. */
    void (*done)(struct kzn_job *job, napi_env env, napi_value callback);
    kzn_link *link;
    napi_ref callback;
} kzn_job;

/* Starts the job, and keeps the loop alive until it is done. Throws, and frees nothing, if there is no thread. */
bool kzn_start(napi_env env, kzn_job *job, napi_value callback);
/* A detached thread that takes no signals; an errno. */
int kzn_thread(void *(*body)(void *), void *arg);

/* ------------------------------------------------------------------------------------------------- parts, values */

/* Fails if a call of Node-API does, which has thrown then, or the environment is ending. */
#define KZN_TRY(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != napi_ok)                                                                                         \
            return NULL;                                                                                               \
    } while (0)

kz_status kzn_fail(kz_error *err, kz_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* An Error of the class that stands for the status; NULL if there is none to be had. */
napi_value kzn_error(napi_env env, const kz_error *err);
/* Throws it; returns NULL. */
napi_value kzn_throw(napi_env env, const kz_error *err);
/* The arguments of a call, undefined where there are fewer; false if the environment is ending. */
bool kzn_args(napi_env env, napi_callback_info info, size_t count, napi_value *args);
/* A copy of a text that the caller frees; NULL for undefined and null, and on an error, which is thrown. */
char *kzn_text(napi_env env, napi_value value);
/* A property of an object. NULL, false or the number given where it is undefined. */
char *kzn_text_of(napi_env env, napi_value object, const char *name);
int64_t kzn_number_of(napi_env env, napi_value object, const char *name, int64_t otherwise);
/* False, and an error is thrown, if it is no unsigned 64-bit bigint. */
bool kzn_id(napi_env env, napi_value value, kz_id *id);
void kzn_set(napi_env env, napi_value object, const char *name, napi_value value);
void kzn_set_number(napi_env env, napi_value object, const char *name, double number);
void kzn_set_text(napi_env env, napi_value object, const char *name, const char *text);
void kzn_set_bigint(napi_env env, napi_value object, const char *name, uint64_t number);
/* Options of kz_open from an object; its texts are freed by kzn_options_free. */
void kzn_options_read(napi_env env, napi_value object, kz_options *options);
void kzn_options_free(kz_options *options);
void kzn_log(void *ctx, kz_log_level level, const char *message);

typedef struct kzn_function {
    const char *name;
    napi_callback call;
} kzn_function;

void kzn_add(napi_env env, napi_value exports, const kzn_function *functions, size_t count, void *data);

void kzn_handles_end(kzn_link *link);
void kzn_errands_end(kzn_link *link);

void kzn_init_generator(napi_env env, napi_value exports);
void kzn_init_provider(napi_env env, napi_value exports);
void kzn_init_table(napi_env env, napi_value exports);
void kzn_init_values(napi_env env, napi_value exports);

#endif
