/* Java's door to the library. Java holds the address of a slot, which lives as long as the Java object; the generator
 * in it ends with close.
 *
 * A call may be under way while another thread closes. So each thread says which slot it uses, in a word of its own;
 * close empties the slot, makes all threads see it (membarrier, so that the minting side needs no fence), and waits
 * until no word names the slot any more. Both sides write before they read, so at least one of them sees the other. */
#include "kazahana.h"

#include <jni.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct slot {
    _Atomic(kz_generator *) gen;
} slot;

typedef struct user {
    _Atomic(slot *) uses;
    _Atomic bool taken;
    struct user *next;
} user;

static _Atomic(user *) users; /* only grows; the words of ended threads are used again */
static pthread_key_t user_key;
static bool has_membarrier;
static _Thread_local user *me __attribute__((tls_model("initial-exec")));

static jclass exception_class;
static jmethodID exception_new;

static void user_ends(void *ctx)
{
    user *ended = ctx;
    atomic_store(&ended->uses, NULL);
    atomic_store(&ended->taken, false);
}

static user *make_user(void)
{
    user *u = NULL;
    for (u = atomic_load(&users); u; u = u->next) {
        bool expected = false;
        if (atomic_compare_exchange_strong(&u->taken, &expected, true))
            break;
    }
    if (!u) {
        u = calloc(1, sizeof *u);
        if (!u)
            return NULL;
        atomic_init(&u->taken, true);
        u->next = atomic_load(&users);
        while (!atomic_compare_exchange_weak(&users, &u->next, u)) {
        }
    }
    pthread_setspecific(user_key, u);
    me = u;
    return u;
}

/* The generator of a slot, until leave; NULL if it is closed. */
static inline kz_generator *enter(slot *s)
{
    user *u = me ? me : make_user();
    if (!u)
        return NULL;
    atomic_store_explicit(&u->uses, s, memory_order_relaxed);
    if (has_membarrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&s->gen, memory_order_acquire);
}

static inline void leave(void)
{
    if (me)
        atomic_store_explicit(&me->uses, NULL, memory_order_release);
}

static slot *slot_of(jlong address)
{
    return (slot *)(uintptr_t)address;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    (void)reserved;
    JNIEnv *env;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK || pthread_key_create(&user_key, user_ends))
        return JNI_ERR;
    jclass found = (*env)->FindClass(env, "kazahana/KazahanaException");
    if (!found)
        return JNI_ERR;
    exception_class = (*env)->NewGlobalRef(env, found);
    exception_new = (*env)->GetMethodID(env, found, "<init>", "(IIJJJLjava/lang/String;)V");
    has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    return exception_class && exception_new ? JNI_VERSION_10 : JNI_ERR;
}

/* ---------------------------------------------------------------------------------------------------- failures */

static jthrowable failure(JNIEnv *env, kz_status status, const kz_error *err)
{
    const char *message = err && err->status == status && err->message[0] ? err->message : kz_status_text(status);
    jstring text = (*env)->NewStringUTF(env, message);
    if (!text)
        return NULL;
    bool told = err && err->status == status;
    return (*env)->NewObject(env, exception_class, exception_new, (jint)status, (jint)(told ? err->cause : KZ_OK),
                             (jlong)(told ? err->backward_ms : 0), (jlong)(told ? err->limit_ms : 0),
                             (jlong)(told ? err->retry_us : 0), text);
}

static void throw_failure(JNIEnv *env, kz_status status, const kz_error *err)
{
    jthrowable thrown = failure(env, status, err);
    if (thrown)
        (*env)->Throw(env, thrown);
}

static void throw_closed(JNIEnv *env)
{
    throw_failure(env, KZ_INVALID, &(kz_error){.status = KZ_INVALID, .message = "the generator is closed"});
}

/* ---------------------------------------------------------------------------------------------------- generator */

JNIEXPORT jlong JNICALL Java_kazahana_Native_open(JNIEnv *env, jclass class, jstring url, jobjectArray options)
{
    (void)class;
    kz_options o;
    kz_error err = {0};
    kz_options_init(&o);
    jsize count = (*env)->GetArrayLength(env, options);
    const char *texts[64] = {0};
    jstring strings[64];
    const char *url_text = NULL;
    kz_status status = KZ_OK;
    slot *made = NULL;
    jsize taken = 0;
    for (; taken < count && taken < (jsize)COUNT_OF(texts); taken++) {
        strings[taken] = (*env)->GetObjectArrayElement(env, options, taken);
        texts[taken] = (*env)->GetStringUTFChars(env, strings[taken], NULL);
        if (!texts[taken])
            goto done; /* an OutOfMemoryError is on its way */
    }
    for (jsize i = 0; i + 1 < taken && status == KZ_OK; i += 2)
        status = kz_options_set(&o, texts[i], texts[i + 1], &err);
    if (url && !(url_text = (*env)->GetStringUTFChars(env, url, NULL)))
        goto done;
    if (status == KZ_OK && !(made = calloc(1, sizeof *made)))
        status = KZ_NO_MEMORY;
    kz_generator *gen = NULL;
    if (status == KZ_OK)
        status = kz_open_shared(&gen, url_text, &o, &err);
    if (status == KZ_OK)
        atomic_init(&made->gen, gen);
    else
        throw_failure(env, status, &err);
done:
    if (status) {
        free(made);
        made = NULL;
    }
    if (url_text)
        (*env)->ReleaseStringUTFChars(env, url, url_text);
    for (jsize i = 0; i < taken; i++)
        (*env)->ReleaseStringUTFChars(env, strings[i], texts[i]);
    return (jlong)(uintptr_t)made;
}

/* 0: ask mint, which says why. */
JNIEXPORT jlong JNICALL Java_kazahana_Native_tryNext(JNIEnv *env, jclass class, jlong address)
{
    (void)env, (void)class;
    kz_id id = 0;
    kz_generator *gen = enter(slot_of(address));
    if (gen && kz_try_next(gen, &id) != KZ_OK)
        id = 0;
    leave();
    return (jlong)id;
}

/* How many IDs could be had at once, 1024 at most; if none, why[0] says why. */
JNIEXPORT jint JNICALL Java_kazahana_Native_mint(JNIEnv *env, jclass class, jlong address, jlongArray ids, jint offset,
                                                 jint count, jobjectArray why)
{
    (void)class;
    kz_id some[1024];
    kz_error err = {.status = KZ_INVALID, .message = "the generator is closed"};
    kz_status status = KZ_INVALID;
    size_t want = (size_t)count < COUNT_OF(some) ? (size_t)count : COUNT_OF(some), got = 0;
    kz_generator *gen = enter(slot_of(address));
    if (gen)
        status = kz_try_batch(gen, some, want, &got, &err);
    leave();
    if (got)
        (*env)->SetLongArrayRegion(env, ids, offset, (jsize)got, (const jlong *)some);
    else
        (*env)->SetObjectArrayElement(env, why, 0, failure(env, status, &err));
    return (jint)got;
}

JNIEXPORT void JNICALL Java_kazahana_Native_close(JNIEnv *env, jclass class, jlong address)
{
    (void)env, (void)class;
    slot *s = slot_of(address);
    kz_generator *gen = atomic_exchange(&s->gen, NULL);
    if (!gen)
        return;
    if (has_membarrier)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    atomic_thread_fence(memory_order_seq_cst);
    for (user *u = atomic_load(&users); u; u = u->next)
        while (atomic_load(&u->uses) == s)
            sched_yield();
    kz_close(gen);
}

/* After the last call: the Java object is gone. */
JNIEXPORT void JNICALL Java_kazahana_Native_free(JNIEnv *env, jclass class, jlong address)
{
    Java_kazahana_Native_close(env, class, address);
    free(slot_of(address));
}

JNIEXPORT jlongArray JNICALL Java_kazahana_Native_stats(JNIEnv *env, jclass class, jlong address)
{
    (void)class;
    kz_stats s;
    kz_stats_init(&s);
    kz_generator *gen = enter(slot_of(address));
    kz_status status = gen ? kz_stats_get(gen, &s) : KZ_INVALID;
    leave();
    if (!gen) {
        throw_closed(env);
        return NULL;
    }
    if (status) {
        throw_failure(env, status, NULL);
        return NULL;
    }
    const jlong values[] = {(jlong)s.ids_leased,
                            (jlong)s.ids_fenced,
                            (jlong)s.ids_unfenced,
                            (jlong)s.sequence_exhausted,
                            (jlong)s.clock_backward,
                            s.clock_backward_max_ms,
                            s.ahead_ms,
                            (jlong)s.leases,
                            (jlong)s.throughput_per_ms,
                            (jlong)s.leases_acquired,
                            (jlong)s.leases_released,
                            (jlong)s.acquire_failures,
                            s.lease_age_ms,
                            (jlong)s.last,
                            s.window_end_unix_ms,
                            s.unfenced};
    jlongArray array = (*env)->NewLongArray(env, COUNT_OF(values));
    if (array)
        (*env)->SetLongArrayRegion(env, array, 0, COUNT_OF(values), values);
    return array;
}

JNIEXPORT jstring JNICALL Java_kazahana_Native_layoutOf(JNIEnv *env, jclass class, jlong address)
{
    (void)class;
    kz_layout layout;
    char text[KZ_LAYOUT_TEXT_SIZE];
    kz_generator *gen = enter(slot_of(address));
    if (gen)
        kz_generator_layout(gen, &layout);
    leave();
    if (!gen) {
        throw_closed(env);
        return NULL;
    }
    kz_layout_text(&layout, text);
    return (*env)->NewStringUTF(env, text);
}

/* ----------------------------------------------------------------------------------------- layouts, texts, keys */

/* Calls `read` with the text in UTF-8; false if Java is out of memory. */
static const char *utf(JNIEnv *env, jstring text)
{
    return text ? (*env)->GetStringUTFChars(env, text, NULL) : NULL;
}

static bool layout_from(JNIEnv *env, jstring text, kz_layout *layout)
{
    kz_error err = {0};
    const char *chars = utf(env, text);
    if (!chars)
        return false;
    kz_status status = kz_layout_parse(chars, layout, &err);
    (*env)->ReleaseStringUTFChars(env, text, chars);
    if (status)
        throw_failure(env, status, &err);
    return status == KZ_OK;
}

/* {time, node, sequence, fallback} */
JNIEXPORT jlongArray JNICALL Java_kazahana_Native_decode(JNIEnv *env, jclass class, jstring text, jlong id)
{
    (void)class;
    kz_layout layout;
    kz_parts parts;
    kz_error err = {0};
    if (!layout_from(env, text, &layout))
        return NULL;
    kz_status status = kz_decode(&layout, (kz_id)id, &parts, &err);
    if (status) {
        throw_failure(env, status, &err);
        return NULL;
    }
    const jlong values[] = {parts.unix_ms, parts.node, parts.seq, parts.fallback};
    jlongArray array = (*env)->NewLongArray(env, COUNT_OF(values));
    if (array)
        (*env)->SetLongArrayRegion(env, array, 0, COUNT_OF(values), values);
    return array;
}

JNIEXPORT jlong JNICALL Java_kazahana_Native_edge(JNIEnv *env, jclass class, jstring text, jlong unix_ms, jboolean max)
{
    (void)class;
    kz_layout layout;
    kz_error err = {0};
    kz_id id = 0;
    if (!layout_from(env, text, &layout))
        return 0;
    kz_status status = max ? kz_max_id(&layout, unix_ms, &id, &err) : kz_min_id(&layout, unix_ms, &id, &err);
    if (status)
        throw_failure(env, status, &err);
    return (jlong)id;
}

JNIEXPORT jstring JNICALL Java_kazahana_Native_layout(JNIEnv *env, jclass class, jstring text)
{
    (void)class;
    kz_layout layout;
    char whole[KZ_LAYOUT_TEXT_SIZE];
    if (!layout_from(env, text, &layout))
        return NULL;
    kz_layout_text(&layout, whole);
    return (*env)->NewStringUTF(env, whole);
}

JNIEXPORT jstring JNICALL Java_kazahana_Native_text(JNIEnv *env, jclass class, jlong id, jint form)
{
    (void)class;
    char text[KZ_TEXT_SIZE];
    kz_text((kz_id)id, (kz_form)form, text);
    return (*env)->NewStringUTF(env, text);
}

JNIEXPORT jlong JNICALL Java_kazahana_Native_parse(JNIEnv *env, jclass class, jstring text, jint form)
{
    (void)class;
    kz_error err = {0};
    kz_id id = 0;
    const char *chars = utf(env, text);
    if (!chars)
        return 0;
    kz_status status = kz_text_parse(chars, (kz_form)form, &id, &err);
    (*env)->ReleaseStringUTFChars(env, text, chars);
    if (status)
        throw_failure(env, status, &err);
    return (jlong)id;
}

JNIEXPORT jlong JNICALL Java_kazahana_Native_keys(JNIEnv *env, jclass class, jbyteArray lines)
{
    (void)class;
    kz_external_keys *keys = NULL;
    kz_error err = {0};
    jsize length = (*env)->GetArrayLength(env, lines);
    jbyte *bytes = (*env)->GetByteArrayElements(env, lines, NULL);
    if (!bytes)
        return 0;
    kz_status status = kz_external_keys_parse(&keys, (const char *)bytes, (size_t)length, &err);
    explicit_bzero(bytes, (size_t)length);
    (*env)->ReleaseByteArrayElements(env, lines, bytes, 0);
    if (status)
        throw_failure(env, status, &err);
    return (jlong)(uintptr_t)keys;
}

JNIEXPORT void JNICALL Java_kazahana_Native_freeKeys(JNIEnv *env, jclass class, jlong keys)
{
    (void)env, (void)class;
    kz_external_keys_free((kz_external_keys *)(uintptr_t)keys);
}

/* `type` may be null: an external ID without a prefix. */
JNIEXPORT jstring JNICALL Java_kazahana_Native_external(JNIEnv *env, jclass class, jlong keys, jstring type, jlong id)
{
    (void)class;
    char text[KZ_EXTERNAL_TYPED_SIZE];
    kz_error err = {0};
    kz_status status = KZ_OK;
    const kz_external_keys *with = (const kz_external_keys *)(uintptr_t)keys;
    const char *chars = utf(env, type);
    if (type && !chars)
        return NULL;
    if (chars) {
        status = kz_external_encode_typed(with, chars, (kz_id)id, text, &err);
        (*env)->ReleaseStringUTFChars(env, type, chars);
    } else {
        kz_external_encode(with, (kz_id)id, text);
    }
    if (status) {
        throw_failure(env, status, &err);
        return NULL;
    }
    return (*env)->NewStringUTF(env, text);
}

JNIEXPORT jlong JNICALL Java_kazahana_Native_internal(JNIEnv *env, jclass class, jlong keys, jstring type, jstring text)
{
    (void)class;
    kz_error err = {0};
    kz_id id = 0;
    kz_status status = KZ_OK;
    const kz_external_keys *with = (const kz_external_keys *)(uintptr_t)keys;
    const char *chars = utf(env, text), *type_chars = chars ? utf(env, type) : NULL;
    if (chars && !type)
        status = kz_external_decode(with, chars, &id, &err);
    else if (type_chars)
        status = kz_external_decode_typed(with, type_chars, chars, NULL, 0, &id, &err);
    if (type_chars)
        (*env)->ReleaseStringUTFChars(env, type, type_chars);
    if (chars)
        (*env)->ReleaseStringUTFChars(env, text, chars);
    if (status)
        throw_failure(env, status, &err);
    return (jlong)id;
}
