/* Every allocation and every call to the operating system failing once, one after the other, until none is left.
 *
 * The linker turns the library's calls into the ones here (--wrap, see meson.build). */
#include "test.h"

#include "state_file.h"
#include "virtual_clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { SLOT_BITS = 12 };
#define LAYOUT "41-4-8@2026-01-01"

/* Calls are counted from 1 while `armed`; the one that `fail_at` says fails. */
static _Atomic bool armed;
static _Atomic unsigned calls, fail_at;
static const char *_Atomic failed_call;
static bool short_writes; /* a write that fails leaves half of its bytes behind */

/* What the state file is known to hold: written, and then synced. */
static _Atomic kz_id written_mark, durable_mark;

static bool fails(const char *call)
{
    if (!atomic_load(&armed) || atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fail_at))
        return false;
    failed_call = call;
    return true;
}

/* Off to the side: the linker knows these names, no header does. */
#define WRAPPED(type, name, ...)                                                                                       \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

WRAPPED(void *, malloc, size_t size)
{
    return fails("malloc") ? (errno = ENOMEM, NULL) : __real_malloc(size);
}

WRAPPED(void *, calloc, size_t count, size_t size)
{
    return fails("calloc") ? (errno = ENOMEM, NULL) : __real_calloc(count, size);
}

WRAPPED(void *, realloc, void *old, size_t size)
{
    return fails("realloc") ? (errno = ENOMEM, NULL) : __real_realloc(old, size);
}

WRAPPED(char *, strdup, const char *text)
{
    return fails("strdup") ? (errno = ENOMEM, NULL) : __real_strdup(text);
}

#define MAP_FAILURE ((void *)-1)

WRAPPED(void *, mmap, void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    return fails("mmap") ? (errno = ENOMEM, MAP_FAILURE) : __real_mmap(at, size, access, flags, fd, offset);
}

WRAPPED(void *, mmap64, void *at, size_t size, int access, int flags, int fd, off_t offset)
{
    return fails("mmap") ? (errno = ENOMEM, MAP_FAILURE) : __real_mmap64(at, size, access, flags, fd, offset);
}

WRAPPED(int, madvise, void *at, size_t size, int advice)
{
    return fails("madvise") ? (errno = EINVAL, -1) : __real_madvise(at, size, advice);
}

WRAPPED(ssize_t, getrandom, void *bytes, size_t size, unsigned flags)
{
    return fails("getrandom") ? (errno = EAGAIN, -1) : __real_getrandom(bytes, size, flags);
}

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    return fails("pthread_create") ? EAGAIN : __real_pthread_create(thread, attr, start, arg);
}

WRAPPED(int, open, const char *path, int flags, int mode)
{
    return fails("open") ? (errno = EMFILE, -1) : __real_open(path, flags, mode);
}

WRAPPED(int, open64, const char *path, int flags, int mode)
{
    return fails("open") ? (errno = EMFILE, -1) : __real_open64(path, flags, mode);
}

WRAPPED(int, fcntl, int fd, int command, void *arg)
{
    return fails("fcntl") ? (errno = ENOLCK, -1) : __real_fcntl(fd, command, arg);
}

WRAPPED(int, fcntl64, int fd, int command, void *arg)
{
    return fails("fcntl") ? (errno = ENOLCK, -1) : __real_fcntl64(fd, command, arg);
}

WRAPPED(ssize_t, pread, int fd, void *bytes, size_t size, off_t offset)
{
    return fails("pread") ? (errno = EIO, -1) : __real_pread(fd, bytes, size, offset);
}

WRAPPED(ssize_t, pread64, int fd, void *bytes, size_t size, off_t offset)
{
    return fails("pread") ? (errno = EIO, -1) : __real_pread64(fd, bytes, size, offset);
}

ssize_t __real_pwrite64(int fd, const void *bytes, size_t size, off_t offset);

static ssize_t write_or_fail(int fd, const void *bytes, size_t size, off_t offset)
{
    if (fails("pwrite")) {
        errno = EIO;
        return short_writes ? __real_pwrite64(fd, bytes, size / 2, offset) : -1;
    }
    uint64_t number;
    kz_id mark;
    ssize_t length = __real_pwrite64(fd, bytes, size, offset);
    if (length == (ssize_t)size && size == RECORD_SIZE && state_record_mark(bytes, &number, &mark))
        atomic_store(&written_mark, mark);
    return length;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return write_or_fail(fd, bytes, size, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    return write_or_fail(fd, bytes, size, offset);
}

WRAPPED(int, fdatasync, int fd)
{
    if (fails("fdatasync"))
        return errno = EIO, -1;
    int result = __real_fdatasync(fd);
    if (result == 0)
        atomic_store(&durable_mark, atomic_load(&written_mark));
    return result;
}

WRAPPED(int, fsync, int fd)
{
    return fails("fsync") ? (errno = EIO, -1) : __real_fsync(fd);
}

/* -------------------------------------------------------------------------------------------- the story */

static virtual_clock now;
static state_file file;
static kz_id highest; /* of all IDs given with this file */

static kz_status open_it(const char *url, kz_generator **gen, kz_error *err)
{
    kz_options options;
    kz_options_init(&options);
    options.layout = LAYOUT;
    options.use_clock = &now.clock;
    return kz_open(gen, url, &options, err);
}

static void check_id(kz_id id, bool with_state)
{
    if (id <= highest)
        fail_msg("%s failing: %" PRIu64 " was given again", failed_call, id);
    if (with_state && id >= atomic_load(&durable_mark))
        fail_msg("%s failing: %" PRIu64 " was given, the durable mark is %" PRIu64, failed_call, id,
                 atomic_load(&durable_mark));
    highest = id;
}

/* Mints over several windows. A refusal ends by itself once the keeper has tried again. */
static void use(kz_generator *gen, bool with_state)
{
    for (int window = 0; window < 4; window++) {
        kz_id id;
        kz_error err;
        kz_status status = kz_mint(gen, &id, 1, 10000, &err);
        for (int tries = 0; status && tries < 2000; tries++) {
            if (status != KZ_STATE && status != KZ_NO_MEMORY)
                fail_msg("%s failing: minting gave %s", failed_call, kz_status_name(status));
            assert_true(strlen(err.message) > 0);
            virtual_advance(&now, 100 * VIRTUAL_MS);
            usleep(2000);
            status = kz_mint(gen, &id, 1, 10000, &err);
        }
        if (status)
            fail_msg("%s failing: minting never went on: %s", failed_call, err.message);
        check_id(id, with_state);
        virtual_advance(&now, 2000 * VIRTUAL_MS);
    }
}

/* One life with one failure in it, and one after it without. True if the failure came. */
static bool live(const char *url, bool with_state, unsigned at)
{
    failed_call = NULL;
    atomic_store(&calls, 0);
    atomic_store(&fail_at, at);
    atomic_store(&armed, true);
    kz_generator *gen = NULL;
    kz_error err = {.status = KZ_OK};
    kz_status status = open_it(url, &gen, &err);
    if (status == KZ_OK) {
        use(gen, with_state);
        kz_close(gen);
    } else {
        if (!failed_call)
            fail_msg("nothing failed, but opening gave %s: %s", kz_status_name(status), err.message);
        if (status != KZ_NO_MEMORY && status != KZ_STATE && status != KZ_SYSTEM)
            fail_msg("%s failing: opening gave %s", failed_call, kz_status_name(status));
        assert_int_equal(err.status, status);
        assert_true(strlen(err.message) > 0);
        assert_null(gen);
    }
    atomic_store(&armed, false);

    /* Whatever it was, it has left nothing in the way, and nothing is repeated. */
    if (open_it(url, &gen, &err))
        fail_msg("%s failed once, now it cannot be opened: %s", failed_call, err.message);
    use(gen, with_state);
    kz_close(gen);
    return failed_call != NULL;
}

static unsigned fail_each_once(const char *url, bool with_state, bool fresh_file)
{
    unsigned at = 1;
    for (;; at++) {
        if (fresh_file)
            unlink(file.path);
        if (!live(url, with_state, at))
            break;
        assert_true(at < 1000);
    }
    return at - 1;
}

static int begin(void **state)
{
    (void)state;
    virtual_begin(&now, VIRTUAL_EPOCH_MS + 86400000);
    state_file_begin(&file, 1);
    short_writes = false;
    highest = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    atomic_store(&armed, false);
    state_file_end(&file);
    return 0;
}

/* In a process that has never opened a generator: what is set up once for all must not stay broken either. Must run
 * before the other tests. */
static void a_failure_of_the_very_first_opening_is_not_for_ever(void **state)
{
    (void)state;
    for (unsigned at = 1;; at++) {
        pid_t pid = fork();
        if (pid == 0) {
            kz_generator *gen;
            kz_error err;
            atomic_store(&fail_at, at);
            atomic_store(&armed, true);
            kz_status status = open_it("static:1", &gen, &err);
            atomic_store(&armed, false);
            if (status == KZ_OK)
                _exit(failed_call ? 2 : 3); /* 3: there was nothing left to fail */
            if (open_it("static:1", &gen, &err)) {
                fprintf(stderr, "%s failed once, now opening fails: %s\n", failed_call, err.message);
                _exit(1);
            }
            kz_close(gen);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
            assert_true(at > 4);
            return;
        }
        if (status)
            fail_msg("call %u failing: the child ended with status %#x", at, (unsigned)status);
    }
}

static void a_plain_generator_survives_every_failure(void **state)
{
    (void)state;
    assert_true(fail_each_once("static:1", false, false) >= 4);
    assert_true(fail_each_once("standalone:", false, false) >= 4);
}

static void a_new_state_file_survives_every_failure(void **state)
{
    (void)state;
    assert_true(fail_each_once(file.url, true, true) >= 15);
}

static void an_old_state_file_survives_every_failure(void **state)
{
    (void)state;
    assert_true(fail_each_once(file.url, true, false) >= 15);
}

static void writes_that_stop_half_way_lose_nothing(void **state)
{
    (void)state;
    short_writes = true;
    fail_each_once(file.url, true, true);
    fail_each_once(file.url, true, false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_failure_of_the_very_first_opening_is_not_for_ever),
        TEST(a_plain_generator_survives_every_failure),
        TEST(a_new_state_file_survives_every_failure),
        TEST(an_old_state_file_survives_every_failure),
        TEST(writes_that_stop_half_way_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
