/* kazahana: unique 64-bit IDs that sort by time. This header is the manual of the library.
 *
 * An ID is a point: a time in milliseconds above, a slot below (node and sequence together). A source hands out
 * rectangles, a block of slots times a span of time, and never two that overlap. A generator mints only inside the
 * rectangles it holds and only upward. So no two IDs are equal, and the argument needs no clock: a process that was
 * frozen for an hour still mints inside its own rectangle, and nobody else ever gets those points.
 *
 *     kz_generator *gen;
 *     kz_error err;
 *     if (kz_open(&gen, NULL, NULL, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
 *     kz_id id;
 *     if (kz_next(gen, &id) == KZ_OK) printf("%" PRIu64 "\n", id);
 *     kz_close(gen);
 *
 * Contents:
 *   1. Status and errors          5. Texts                     8. Strictly increasing nanoseconds, and UUIDs of them
 *   2. Simple calls               6. Bytes                     9. Sources: writing one, looking at one
 *   3. Explicit calls, options    7. External IDs             10. Caveats: threads, fork, signals, late IDs, clones,
 *   4. Layouts and decoding                                       stores that forget
 *
 * Conventions. Every call that can fail returns a kz_status and gives its value through a pointer. On any status but
 * KZ_OK the outputs are untouched and nothing has changed, unless the call says otherwise. A kz_error pointer may be
 * NULL; any other only where it says so. Times are Unix milliseconds (`unix_ms`) or nanoseconds (`unix_ns`), UTC; units
 * stand last in a name. Calls on one generator may come from any number of threads at once; section 10 says more.
 * Functions marked `_free` or `_close` accept NULL.
 *
 * Everything here is since 0.1 unless it says otherwise. Until 1.0 the soname carries the minor version.
 */
#ifndef KAZAHANA_H
#define KAZAHANA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define KZ_AT_LEAST(n) n
#else
#define KZ_AT_LEAST(n) static n
#endif

/* Who compiles the library into something else defines KZ_API as nothing, to keep its names hidden. */
#ifndef KZ_API
#ifdef __GNUC__
#define KZ_API __attribute__((visibility("default")))
#else
#define KZ_API
#endif
#endif

#ifdef __GNUC__
#define KZ_MUST_CHECK __attribute__((warn_unused_result))
#else
#define KZ_MUST_CHECK
#endif

#define KZ_VERSION_MAJOR 0
#define KZ_VERSION_MINOR 1
#define KZ_VERSION_PATCH 0
#define KZ_VERSION       "0.1.0"

/* The version of the library that is running, which may be newer than the header a program was built with. */
KZ_API const char *kz_version(void);

/* ---------------------------------------------------------------------------------------------------------------------
 * 1. Status and errors
 * ------------------------------------------------------------------------------------------------------------------ */

/* One list gives the enum, the names and the texts. Numbers are pinned: they never change their meaning. */
#define KZ_STATUS_MAP(X)                                                                                               \
    X(OK, 0, "done")                                                                                                   \
    X(AGAIN, 1, "no ID without waiting")                                                                               \
    X(TIMEOUT, 2, "no ID within the time allowed")                                                                     \
    X(INVALID, 3, "not a valid value")                                                                                 \
    X(UNSUPPORTED, 4, "not supported here")                                                                            \
    X(CLOCK_BACKWARD, 5, "the clock went back")                                                                        \
    X(BEFORE_EPOCH, 6, "the clock is before the layout's epoch")                                                       \
    X(OVERFLOW, 7, "the time field has run out")                                                                       \
    X(FORKED, 8, "the generator belongs to the parent process")                                                        \
    X(IN_USE, 9, "in use by another generator")                                                                        \
    X(STATE, 10, "the state file cannot be used")                                                                      \
    X(LEASE_ACQUISITION, 11, "no lease, and no fallback allowed")                                                      \
    X(NO_PROVIDER, 12, "no source configured, and no fallback allowed")                                                \
    X(UNKNOWN_KEY, 13, "made with a key that is not loaded")                                                           \
    X(NO_MEMORY, 14, "out of memory")                                                                                  \
    X(SYSTEM, 15, "the operating system refused")                                                                      \
    X(UNAVAILABLE, 16, "the source does not answer")                                                                   \
    X(NO_FREE_NODE, 17, "no machine ID free")                                                                          \
    X(NOT_FOUND, 18, "no such lease")                                                                                  \
    X(FORBIDDEN, 19, "wrong signature or not allowed")                                                                 \
    X(CONFLICT, 20, "the same request with other arguments")                                                           \
    X(MISMATCH, 21, "the service has another layout")                                                                  \
    X(STORE, 22, "the store cannot be used")                                                                           \
    X(LOST, 23, "what was held is not ours any more")

typedef enum kz_status {
#define KZ_STATUS_ENUM(name, number, text) KZ_##name = number,
    KZ_STATUS_MAP(KZ_STATUS_ENUM)
#undef KZ_STATUS_ENUM
} kz_status;

/* "KZ_TIMEOUT"; "KZ_UNKNOWN" for a number this version does not know. Never NULL. */
KZ_API const char *kz_status_name(kz_status status);

/* One line about a status, without the particulars that kz_error has. Never NULL. */
KZ_API const char *kz_status_text(kz_status status);

#define KZ_MESSAGE_SIZE 384

/* What went wrong, in the caller's memory. The message names the offending value and the way out. */
typedef struct kz_error {
    kz_status status;
    kz_status cause;     /* KZ_LEASE_ACQUISITION: what the last attempt to get a lease failed with; else KZ_OK */
    int64_t backward_ms; /* KZ_CLOCK_BACKWARD: by how much the clock is behind the last ID; else 0 */
    int64_t limit_ms;    /* KZ_CLOCK_BACKWARD: what would have been waited for, negative for no limit; else 0 */
    int64_t retry_us; /* KZ_AGAIN, KZ_LEASE_ACQUISITION: after so many microseconds it is worth asking again; else 0 */
    char message[KZ_MESSAGE_SIZE];
} kz_error;

/* ---------------------------------------------------------------------------------------------------------------------
 * 2. Simple calls
 * ------------------------------------------------------------------------------------------------------------------ */

typedef uint64_t kz_id;
typedef struct kz_generator kz_generator;
typedef struct kz_options kz_options;
typedef struct kz_layout kz_layout;

/* Opens a generator on the source that `url` names. Lease tables give it a place in the ID space that nobody else has,
 * for a time, and the next one before that time is over:
 *
 *     NULL                          the embedded default: sqlite:$XDG_STATE_HOME/kazahana/leases.db, with
 *                                   ~/.local/state where that is unset, and /var/lib for root then
 *     sqlite:/path/leases.db        a table in a file on a local disk, for all processes of a machine
 *     redis://[[user]:pass@]host[:port][/db]
 *                                   a table in Redis, for many machines. It must not forget: appendonly yes and
 *                                   appendfsync always. ?prefix=p goes before every key; a cluster wants a {tag} in it
 *     rediss://...                  the same with TLS; ?cacert=/path, or ?insecure=1 to check nothing
 *     redis+sentinel://[[user]:pass@]host[:port][,host[:port]...]/name[/db]
 *                                   the same on the master that sentinels call `name`. A failover can forget the last
 *                                   leases granted: see docs/leases.md. rediss+sentinel:// with TLS;
 *                                   ?sentinel-password=p for sentinels that want one
 *     http://host[:port][,host[:port]...]
 *                                   kazahana serve, or several on one store, for many machines. ?token-file=/path,
 *                                   ?token=t or the variable KAZAHANA_TOKEN if it wants a token
 *     https://...                   the same with TLS; ?cacert=/path
 *     http+unix:///path/k.sock      one of this machine, by its Unix socket
 *     tsid+redis://host[:port][/db] one of the 1,024 TSID slots sys:tsid:node:N in Redis, shared with programs that
 *                                   take the same keys with SETNX. ?ttl=24h, ?refresh=12h, ?prefix=p. Redis must be
 *                                   there at the start, unless ?dev=1 or the variable KAZAHANA_ALLOW_DEV=1 allows a
 *                                   random node, which promises nothing. The layout is tsid unless given; no services,
 *                                   no fallback
 *     tsid+rediss://...             the same with TLS
 *     memory:                       one table for the process, which ends with it
 *
 * Lease tables also take ?service=name (instead of the option) and, except for http: and https:, ?lease=10min (100ms to
 * 7d: how long a lease lasts in a service that does not exist yet) and ?amnesia=quarantine (a table that is made anew
 * grants nothing for four leases' time, so that all that was forgotten has ended). The others:
 *
 *     static:7                      node 7, for ever; nobody else may use that number
 *     static:7?state=/path/file     the same, and a restart after the clock was set back cannot repeat an ID
 *                                   Both take a lock on this host, for the number in its layout and service: a second
 *                                   process goes on, but says so (log, kz_stats.contended); ?lock=refuse makes it
 *                                   KZ_IN_USE, ?lock=no takes none. Containers with networks of their own do not see
 *                                   each other's. The variable KAZAHANA_LOCK says it for all
 *     env:WORKER_ID                 the node from an environment variable; also with ?default=0 and &state=
 *     standalone:                   no coordinator: unfenced fallback IDs, which promise nothing (section 10)
 *
 * `options` may be NULL for the defaults. The URL and the options are copied. With a lease table it waits for the first
 * lease up to timeout_ms, and then fails, unless fallback = any.
 *
 * KZ_INVALID             the URL, an option or the layout is wrong; the message says which
 * KZ_UNSUPPORTED         no such kind of source in this build, or a layout that can only be decoded
 * KZ_LEASE_ACQUISITION   no lease was to be had. err->cause is KZ_UNAVAILABLE (nobody answers, or nothing is granted
 *                        for a while: try again later), KZ_NO_FREE_NODE (all are out: wait, or use a layout with more
 *                        node bits), or one of the next two
 * KZ_MISMATCH            the service has another layout than the option: leave the option out, or use another service
 * KZ_STORE               the file or the server can be reached, but not used as a lease table: damaged, not allowed, no
 *                        password, older than what was seen before. Asking again does not help; the message does
 * KZ_UNAVAILABLE         a table that has to be looked at first is locked by others for too long, or Redis is not there
 *                        to give a TSID slot: try again
 * KZ_IN_USE              this process has a generator on that fixed node and layout, or some process has locked the
 *                        state file
 * KZ_STATE               the state file is damaged, belongs to another node or layout, or cannot be written
 * KZ_NO_PROVIDER         standalone: with fallback = never
 * KZ_FORKED              a process made by clone, not fork, while its parent had the lease file open (section 10)
 * KZ_NO_MEMORY, KZ_SYSTEM
 *
 * Starts a thread, the keeper, on lease tables and with state= (section 10).
 */
KZ_API KZ_MUST_CHECK kz_status kz_open(kz_generator **gen, const char *url, const kz_options *options, kz_error *err);

/* The same, but parts of a process that ask for the same URL with the same options get the same generator; each closes
 * it with kz_close, and the last of them really does. A fixed node can be had only once in a process, so this is how
 * plugins, workers of one runtime or test cases share it. `log`, `log_ctx` and `use_clock` must be the same too.
 * Sources that a program registered itself are never shared. Generators that are still open when the process ends
 * (exit, or the return of main) give back what they hold then; calls on them fail afterwards. Those of kz_open do not.
 */
KZ_API KZ_MUST_CHECK kz_status kz_open_shared(kz_generator **gen, const char *url, const kz_options *options,
                                              kz_error *err);

/* The next ID: larger than every ID this generator gave before, on whatever thread. Sleeps when it has to, for
 * timeout_ms at the most: when the slots of this millisecond are used up (to the next millisecond, never longer), when
 * nothing is held (until the keeper has a lease), or when the clock went back and the policy is to wait. Otherwise it
 * makes no system call, and it never talks to a source: the keeper does.
 *
 * KZ_TIMEOUT             nothing to be had within timeout_ms
 * KZ_LEASE_ACQUISITION   lease and twin are over, and the keeper got no other: kz_mint tells the cause. The keeper goes
 *                        on trying, so a later call may succeed
 * KZ_CLOCK_BACKWARD      the clock is behind the last ID by more than the policy waits for: kz_mint says by how much
 * KZ_BEFORE_EPOCH        the clock is before the layout's epoch: set the clock, or choose a layout
 * KZ_OVERFLOW            the layout's time field has run out: move to a layout with more time bits or a later epoch
 * KZ_FORKED              the parent process opened this generator, and its source has no other place for this one: open
 *                        a generator here (section 10)
 * KZ_STATE               the state file could not be written in time, and the mark on disk has been reached
 * KZ_SYSTEM, KZ_NO_MEMORY   in a forked child only, where the first call starts a keeper
 */
KZ_API KZ_MUST_CHECK kz_status kz_next(kz_generator *gen, kz_id *id);

/* The same, but never sleeps: KZ_AGAIN where kz_next would, also while a forked child waits for its first lease. For
 * event loops: set a timer and ask again. KZ_LEASE_ACQUISITION also means to ask again, a good deal later. kz_mint with
 * a timeout of 0 is the same call with a kz_error, whose retry_us says how much later. */
KZ_API KZ_MUST_CHECK kz_status kz_try_next(kz_generator *gen, kz_id *id);

/* `count` IDs in increasing order, larger than all before; other threads' IDs may lie between them. timeout_ms bounds
 * the whole call. On an error no element of `ids` may be used: IDs taken until then are lost, not given again. */
KZ_API KZ_MUST_CHECK kz_status kz_next_batch(kz_generator *gen, kz_id *ids, size_t count);

/* Gives back what the generator holds, ends the keeper and frees it. No other call on it may be under way or come
 * after. May take as long as an exchange with the source for each lease; leases that could not be given back end by
 * themselves. In a child that has not minted with it, it only frees the child's copy. NULL is allowed. */
KZ_API void kz_close(kz_generator *gen);

/* ---------------------------------------------------------------------------------------------------------------------
 * 3. Explicit calls and options
 * ------------------------------------------------------------------------------------------------------------------ */

/* What kz_next, kz_try_next and kz_next_batch are short for: `count` IDs within `timeout_ms` (0: never sleep; negative:
 * no limit), with the particulars of a failure in `err`: the cause of KZ_LEASE_ACQUISITION, the amount of
 * KZ_CLOCK_BACKWARD. A wait for the clock that the timeout does not cover fails at once with KZ_CLOCK_BACKWARD, and
 * limit_ms is the timeout then. Statuses as kz_next, and KZ_AGAIN with a timeout of 0. */
KZ_API KZ_MUST_CHECK kz_status kz_mint(kz_generator *gen, kz_id *ids, size_t count, int64_t timeout_ms, kz_error *err);

/* As many of `count` IDs as there are without sleeping, for bindings and event loops: `got` says how many, which are in
 * `ids` and the caller's whatever the status is. KZ_OK if those are all; else why there are no more, as kz_mint with a
 * timeout of 0 says it. */
KZ_API KZ_MUST_CHECK kz_status kz_try_batch(kz_generator *gen, kz_id *ids, size_t count, size_t *got, kz_error *err);

/* May IDs be minted without a lease? Every such ID shows it in its top node bit. */
typedef enum kz_fallback {
    KZ_FALLBACK_NEVER = 0,
    KZ_FALLBACK_FENCED = 1, /* only from the twin, a window granted together with the lease: as safe as a lease */
    KZ_FALLBACK_ANY = 2     /* then random ones too, which promise nothing: at 1,000 a second in all, 58 % to have a
                               twin within the hour */
} kz_fallback;

/* What to do when the clock is behind the last ID. With a lease table that clock is the table's, carried on by a clock
 * that never jumps: setting a client's wall clock plays no part. */
typedef enum kz_backward {
    KZ_BACKWARD_FAIL = 0,   /* KZ_CLOCK_BACKWARD at once */
    KZ_BACKWARD_WAIT = 1,   /* sleep up to max_backward_ms, KZ_CLOCK_BACKWARD beyond */
    KZ_BACKWARD_LOGICAL = 2 /* go on upward from the last ID, at most max_ahead_ms above the highest clock reading */
} kz_backward;

typedef enum kz_clock_kind {
    KZ_CLOCK_PRECISE = 0, /* an ID's time is at most 1 ms old when the call returns (preemption aside) */
    KZ_CLOCK_COARSE = 1   /* at most one tick of the kernel's clock old (1 to 10 ms); cheaper with many threads */
} kz_clock_kind;

/* Where a millisecond's sequence begins. */
typedef enum kz_seq_start {
    KZ_SEQ_ZERO = 0,
    KZ_SEQ_RANDOM =
        1 /* somewhere in the lower half, so that `id % n` is even at low load; halves the capacity at worst */
} kz_seq_start;

/* A clock to be used instead of the machine's, for tests and simulations. The struct is copied, `ctx` is not. */
typedef struct kz_clock {
    int64_t (*wall_ns)(void *ctx);           /* nanoseconds since 1970, may jump either way */
    int64_t (*boot_ns)(void *ctx);           /* nanoseconds that never jump; measures timeouts */
    void (*sleep_ns)(void *ctx, int64_t ns); /* returns after about that long */
    void *ctx;
} kz_clock;

/* Who asks the source for leases, hands over and gives back. */
typedef enum kz_keeper {
    KZ_KEEPER_THREAD = 0, /* a thread of the generator's own */
    KZ_KEEPER_CALLER = 1  /* whoever calls kz_keep: for programs with an event loop or without threads */
} kz_keeper;

typedef enum kz_log_level { KZ_LOG_ERROR = 0, KZ_LOG_WARNING = 1, KZ_LOG_INFO = 2 } kz_log_level;

/* Called from any thread, the keeper's too, never while a lock of the library is held. `message` is one line. */
typedef void (*kz_log_fn)(void *ctx, kz_log_level level, const char *message);

struct kz_options {
    size_t struct_size;      /* set by kz_options_init, so that the struct can grow */
    const char *service;     /* "default": the ID space of a lease table that is meant */
    const char *layout;      /* a preset's name or TIME-NODE-SEQ@EPOCH; NULL: the source's own default */
    kz_fallback fallback;    /* fenced */
    kz_backward backward;    /* wait */
    int64_t max_backward_ms; /* 5000; 0 fails at once, negative waits for ever */
    int64_t max_ahead_ms;    /* 1000; for the logical policy */
    int64_t timeout_ms;  /* 10000; 0 never sleeps, negative: no limit. The shorter of it and the backward limit wins */
    kz_clock_kind clock; /* precise */
    kz_seq_start seq_start; /* zero */
    kz_log_fn log;          /* NULL: silent */
    void *log_ctx;
    const kz_clock *use_clock; /* NULL: the machine's */

    /* For sources that grant leases. */
    uint32_t throughput_min_per_ms; /* 256: IDs a millisecond to ask for at the start ... */
    uint32_t throughput_max_per_ms; /* 256: ... and to grow to when sequences run out; raise it to let it grow */
    double renew_at;                /* 0.9: the part of a lease's time after which the next one is asked for */
    int64_t retry_initial_ms;       /* 1000: the pause after a failure, doubling ... */
    int64_t retry_max_ms;           /* 60000: ... up to this */
    const char *meta;               /* who holds a lease, for people: a JSON object of texts; NULL: host and pid */
    /* 0, no limit. While a table has this many services, an acquire for one that is not there gives KZ_NO_FREE_NODE. To
     * make room, services as acquire makes them, that nobody used for a day, are forgotten. For servers. */
    uint32_t max_services;
    kz_keeper keeper; /* thread */
};

/* Fills in the defaults noted above. Call it before setting fields. */
KZ_API void kz_options_init(kz_options *options);

/* Sets one option from a text, by the name it has on the command line, in a config file or in a binding: "fallback",
 * "fenced"; "throughput", "256:4096"; "backward", "wait:5000". Hyphens in the name count as underscores. Milliseconds
 * may have a unit (ms, s, min, h, d), and be "forever" where that makes sense. service, layout and meta are kept as
 * they are, not copied. KZ_NOT_FOUND: there is no such option. KZ_INVALID: not such a value; the message begins with
 * the name and a colon. Nothing changes then. What options must be together, kz_open checks. */
KZ_API KZ_MUST_CHECK kz_status kz_options_set(kz_options *options, const char *name, const char *text, kz_error *err);

/* The options that kz_options_set knows, for index 0 and up; NULL past the last. */
typedef struct kz_option_info {
    const char *name;  /* "seq_start" */
    const char *takes; /* "zero|random", "MIN:MAX", "MS" */
    const char *help;  /* half a line, with the default */
} kz_option_info;
KZ_API const kz_option_info *kz_option_at(size_t index);

/* A whole number, and a duration with its unit (ms, s, min, h, d, w), within bounds: as every setting here is read.
 * KZ_INVALID: it is not, or not within them. */
KZ_API KZ_MUST_CHECK kz_status kz_number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number,
                                               kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_duration_parse(const char *text, int64_t min_ms, int64_t max_ms, int64_t *ms,
                                                 kz_error *err);

/* For keeper = KZ_KEEPER_CALLER: does what is due and says in `*wait_ms` when to come back at the latest (INT64_MAX:
 * not before something changes). Exchanges with the source are made here and may block as long as they take; minting
 * goes on meanwhile on other threads. Call it too when kz_try_next gives KZ_AGAIN or KZ_LEASE_ACQUISITION. Whoever
 * comes too late finds the lease over, and its twin in use. One call at a time does something; kz_open and kz_close do
 * their part themselves.
 *
 * A failed exchange is given as it is, with the next try in `*wait_ms`. KZ_UNSUPPORTED: the generator has a thread.
 * KZ_FORKED as kz_next. */
KZ_API KZ_MUST_CHECK kz_status kz_keep(kz_generator *gen, int64_t *wait_ms, kz_error *err);

/* The layout of the IDs it mints: the lease's, else the option's, else the source's default. The division between node
 * and sequence may differ from lease to lease; epoch, time bits and their sum never do. */
KZ_API void kz_generator_layout(kz_generator *gen, kz_layout *layout);

/* What a generator did and where it stands. An ID that a race between threads lost is counted as given. In a forked
 * child that took leases of its own everything counts from there. */
typedef struct kz_stats {
    size_t struct_size;
    uint64_t ids_leased;           /* by kind: from a lease or a fixed node */
    uint64_t ids_fenced;           /*          fallback, fenced */
    uint64_t ids_unfenced;         /*          fallback, unfenced */
    uint64_t sequence_exhausted;   /* milliseconds whose slots were used up while more were wanted */
    uint64_t clock_backward;       /* steps of the clock backwards that were seen */
    int64_t clock_backward_max_ms; /* the largest of them */
    int64_t ahead_ms;              /* by how much the last ID is ahead of the clock now; 0 if it is not */
    uint64_t sleeps;               /* how often a call slept */
    uint64_t leases;               /* held now, without those that a newer one has succeeded */
    uint64_t throughput_per_ms;    /* what those allow */
    uint64_t leases_acquired;      /* in all */
    uint64_t leases_released;
    uint64_t acquire_failures; /* in all; since the last success: */
    uint64_t acquire_failures_now;
    int64_t lease_age_ms;       /* of the oldest lease in use; 0 without one */
    kz_id last;                 /* the last ID that may have been given; 0 before the first */
    int64_t window_end_unix_ms; /* until when IDs can be minted from what is held; INT64_MAX: no end but overflow */
    bool unfenced;              /* IDs minted now promise nothing: fallback = any without a lease, or TSID dev mode */
    bool contended;             /* another process on this host had the same fixed node when this one was opened */
} kz_stats;

/* Call it before kz_stats_get. */
KZ_API void kz_stats_init(kz_stats *stats);
/* KZ_INVALID if struct_size was not set by kz_stats_init; KZ_FORKED in a child that has not minted with it. */
KZ_API KZ_MUST_CHECK kz_status kz_stats_get(kz_generator *gen, kz_stats *stats);

/* For bindings whose language can add to a word in memory more cheaply than call C: the words on which kz_next claims
 * an ID, to be claimed on directly. Each is read and written by atomic operations only, in this order:
 *
 *     d = deadline                      acquire
 *     t = the processor's tick counter  rdtsc, or cntvct_el0
 *     if (d - t - 1 < span) {           unsigned: false for 0, for a deadline that has passed and for nonsense
 *         h = hi                        acquire, and before the next step, never after it
 *         id = next, next += 1          one atomic add; up to 65536 points can be claimed so
 *         if (id < h) return id         of a larger claim: the points from id up to h
 *     }
 *     return kz_try_next(...)           also for everything that can go wrong
 *
 * Promised: `hi` never falls; a run begins at or above the `hi` before it; `next` is written before `hi`, `hi` before
 * `deadline`. A forked child finds zeros, goes by kz_try_next and is served as ever. */
typedef struct kz_page {
    uint64_t deadline, span, hi, reserved[13], next;
} kz_page;

/* Gives the page of a generator. From then on threads do not claim in advance for themselves (a call then costs about
 * twice as much), in a child too. The page outlives kz_close, with nothing on it, until kz_page_free: no thread loses
 * memory that it is about to look at. Where `*cpu_ticks` is false, the deadline is in ticks of another clock: call
 * kz_try_next then. Does not fail. */
KZ_API kz_page *kz_share(kz_generator *gen, bool *cpu_ticks);
/* After kz_close, once nobody looks at it any more. NULL is allowed. */
KZ_API void kz_page_free(kz_page *page);

/* ---------------------------------------------------------------------------------------------------------------------
 * 4. Layouts and decoding
 * ------------------------------------------------------------------------------------------------------------------ */

#define KZ_LAYOUT_NAME_SIZE 16
#define KZ_LAYOUT_TEXT_SIZE 48

enum {
    KZ_LAYOUT_FALLBACK = 1,    /* the upper half of the nodes is the fallback namespace, also when decoding */
    KZ_LAYOUT_NODE_LOWEST = 2, /* the sequence stands above the node (sonyflake) */
    KZ_LAYOUT_DECODE_ONLY = 4  /* can be read, not minted */
};

/* How an ID's bits are divided: reserved (zero), time, node, sequence from the top. */
typedef struct kz_layout {
    int64_t epoch_ms; /* Unix time of the time field's zero */
    uint32_t unit_ms; /* what one step of the time field is: 1, or 10 for sonyflake */
    uint32_t flags;   /* KZ_LAYOUT_* */
    uint8_t time_bits, node_bits, seq_bits;
    char name[KZ_LAYOUT_NAME_SIZE]; /* the preset's, or empty */
} kz_layout;

/* Reads `kazahana`, `snowflake`, `tsid`, ... or `41-14-8@2026-01-01` (an epoch as a date, a time `2026-01-01T00:00:00Z`
 * or in Unix ms). At most 64 bits in all. A written layout that equals a preset is that preset.
 * KZ_INVALID: the message says what is wrong. */
KZ_API KZ_MUST_CHECK kz_status kz_layout_parse(const char *text, kz_layout *layout, kz_error *err);

/* The presets in order, for index 0 and up; NULL past the last. */
KZ_API const kz_layout *kz_layout_preset(size_t index);

/* The layout as TIME-NODE-SEQ@EPOCH, which kz_layout_parse reads. */
KZ_API void kz_layout_text(const kz_layout *layout, char text[KZ_AT_LEAST(KZ_LAYOUT_TEXT_SIZE)]);

/* What a layout can hold and how long it lasts. */
typedef struct kz_layout_facts {
    uint32_t reserved_bits;
    uint64_t nodes;          /* node numbers in all */
    uint64_t leasable_nodes; /* those a lease table hands out: the lower half; 0 without node bits */
    uint64_t ids_per_step;   /* for each node in each step of the time field */
    int64_t first_unix_ms;
    int64_t last_unix_ms;     /* the last instant the time field can show */
    bool turns_negative;      /* with 64 bits: IDs become negative as signed integers ... */
    int64_t negative_unix_ms; /* ... from this instant on */
} kz_layout_facts;

/* Fills in the facts; does not fail. */
KZ_API void kz_layout_describe(const kz_layout *layout, kz_layout_facts *facts);

typedef struct kz_parts {
    int64_t unix_ms;
    uint32_t node;
    uint32_t seq;
    bool fallback; /* the top node bit is set in a layout whose upper half is for fallback */
} kz_parts;

/* Takes an ID apart. KZ_INVALID: bits above the layout's are set, so it cannot be of this layout. */
KZ_API KZ_MUST_CHECK kz_status kz_decode(const kz_layout *layout, kz_id id, kz_parts *parts, kz_error *err);

/* The smallest and the largest ID of an instant, for `WHERE id BETWEEN`. KZ_INVALID: outside the layout's life. */
KZ_API KZ_MUST_CHECK kz_status kz_min_id(const kz_layout *layout, int64_t unix_ms, kz_id *id, kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_max_id(const kz_layout *layout, int64_t unix_ms, kz_id *id, kz_error *err);

#define KZ_TIME_TEXT_SIZE 32

/* `2026-01-01T00:00:00.000Z`, and back: also a date alone, fewer or no decimals, an offset such as `+09:00`, or Unix
 * milliseconds as plain digits (an optional leading minus). KZ_INVALID: the message says what is wrong. */
KZ_API void kz_time_text(int64_t unix_ms, char text[KZ_AT_LEAST(KZ_TIME_TEXT_SIZE)]);
KZ_API KZ_MUST_CHECK kz_status kz_time_parse(const char *text, int64_t *unix_ms, kz_error *err);

/* ---------------------------------------------------------------------------------------------------------------------
 * 5. Texts
 * ------------------------------------------------------------------------------------------------------------------ */

typedef enum kz_form {
    KZ_DECIMAL = 0,  /* up to 20 digits */
    KZ_HEX = 1,      /* 16 digits, lower case; read with or without 0x, either case, 1 to 16 digits */
    KZ_BASE32 = 2,   /* 13 characters, Crockford, upper case; read leniently: either case, O as 0, I and L as 1 */
    KZ_BASE62 = 3,   /* 11 characters, 0-9A-Za-z, sorts like the number */
    KZ_BASE64URL = 4 /* 11 characters, big-endian bytes, no padding */
} kz_form;

#define KZ_TEXT_SIZE     24 /* room for any form and its terminating zero */
#define KZ_BASE64URL_LEN 11

/* Writes the ID and a terminating zero; returns the length. An unknown form writes an empty text and returns 0. */
KZ_API size_t kz_text(kz_id id, kz_form form, char text[KZ_AT_LEAST(KZ_TEXT_SIZE)]);

/* Reads a text whole: no blanks, no sign, nothing behind. KZ_INVALID: the message names the character or the length. */
KZ_API KZ_MUST_CHECK kz_status kz_text_parse(const char *text, kz_form form, kz_id *id, kz_error *err);

/* ---------------------------------------------------------------------------------------------------------------------
 * 6. Bytes: big-endian, so that they sort like the number
 * ------------------------------------------------------------------------------------------------------------------ */

/* Neither fails. */
KZ_API void kz_id_to_bytes(kz_id id, uint8_t bytes[KZ_AT_LEAST(8)]);
KZ_API kz_id kz_id_from_bytes(const uint8_t bytes[KZ_AT_LEAST(8)]);

/* ---------------------------------------------------------------------------------------------------------------------
 * 7. External IDs: 11 characters that hide order and time, and can be turned back
 *
 * Without keys a public mixer hides the order from the eye, not from somebody who knows it. With keys a 64-bit block
 * cipher does, and the last character carries the number of the key, so that keys can be changed while old texts still
 * read. Whoever has a key can turn every text made with it back.
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct kz_external_keys kz_external_keys;

#define KZ_EXTERNAL_SIZE 12 /* 11 characters and a terminating zero */

/* Reads keys: lines `N xtea|speck HEXSECRET`, N from 0 to 3, a secret of 16 to 1024 bytes; blank lines and lines that
 * start with # are passed over. The first key encodes, all decode. KZ_INVALID names the line. */
KZ_API KZ_MUST_CHECK kz_status kz_external_keys_parse(kz_external_keys **keys, const char *text, size_t length,
                                                      kz_error *err);
/* The same from a file of at most 64 KiB. KZ_SYSTEM: it cannot be read. */
KZ_API KZ_MUST_CHECK kz_status kz_external_keys_load(kz_external_keys **keys, const char *path, kz_error *err);
/* Wipes and frees them. NULL is allowed. */
KZ_API void kz_external_keys_free(kz_external_keys *keys);

/* `keys` NULL: the mixer. Any number of threads may share the keys. */
KZ_API void kz_external_encode(const kz_external_keys *keys, kz_id id, char text[KZ_AT_LEAST(KZ_EXTERNAL_SIZE)]);
/* KZ_INVALID: not 11 characters of the base64url alphabet. KZ_UNKNOWN_KEY: made with a key that is not loaded. */
KZ_API KZ_MUST_CHECK kz_status kz_external_decode(const kz_external_keys *keys, const char *text, kz_id *id,
                                                  kz_error *err);

#define KZ_EXTERNAL_TYPED_SIZE (16 + 1 + KZ_EXTERNAL_SIZE)

/* With a type in front: `user_` and 11 characters. With keys the type is part of the key, so that the characters of one
 * type mean nothing under another. Without keys the type is only written there. A type is 1 to 16 of a-z and 0-9 and
 * begins with a letter. KZ_INVALID: `type` is none. */
KZ_API KZ_MUST_CHECK kz_status kz_external_encode_typed(const kz_external_keys *keys, const char *type, kz_id id,
                                                        char text[KZ_AT_LEAST(KZ_EXTERNAL_TYPED_SIZE)], kz_error *err);
/* KZ_INVALID: the text has another type or none, is malformed, or (with keys) what comes out is no ID: it has bits
 * above `layout` or a time after `latest_unix_ms`. That is how a text with a changed type is found out, but for about
 * 1 in 100. `layout` NULL: kazahana. `latest_unix_ms` 0: a day after this machine's clock. KZ_UNKNOWN_KEY as above. */
KZ_API KZ_MUST_CHECK kz_status kz_external_decode_typed(const kz_external_keys *keys, const char *type,
                                                        const char *text, const kz_layout *layout,
                                                        int64_t latest_unix_ms, kz_id *id, kz_error *err);

/* ---------------------------------------------------------------------------------------------------------------------
 * 8. Strictly increasing nanoseconds, and UUIDs of them
 *
 * next = max(now, last + 1), lock-free, on any number of threads. They never wait and never fail for the clock's sake:
 * when it stands or goes back they run ahead of it. Give the last value you stored to go on above it; two generators
 * that resume from the same value repeat each other. When a second thread joins after one had it alone, values may be
 * up to a microsecond ahead of the clock until it has caught up.
 * ------------------------------------------------------------------------------------------------------------------ */

typedef struct kz_mono kz_mono;

/* `last_ns`: the last value ever given, 0 for none. KZ_INVALID: negative. */
KZ_API KZ_MUST_CHECK kz_status kz_mono_new(kz_mono **mono, int64_t last_ns, kz_error *err);
/* KZ_OVERFLOW: past the year 2262. */
KZ_API KZ_MUST_CHECK kz_status kz_mono_next(kz_mono *mono, int64_t *unix_ns);
/* The same with the time handed in. */
KZ_API KZ_MUST_CHECK kz_status kz_mono_next_at(kz_mono *mono, int64_t now_ns, int64_t *unix_ns);
KZ_API void kz_mono_free(kz_mono *mono);

typedef struct kz_uuid {
    uint8_t bytes[16];
} kz_uuid;

#define KZ_UUID_TEXT_SIZE    37
#define KZ_MONOUUID_NODE_MAX 16777215u

typedef struct kz_monouuid kz_monouuid;

/* UUIDs of version 7 that carry the node and the nanosecond and can be recognised (magic 0xE355). `last`: the last one
 * ever given by this node; NULL or all zeros: none. KZ_INVALID: node 0 or above 16777215, or `last` is not of this kind
 * or node. */
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_new(kz_monouuid **gen, uint32_t node, const kz_uuid *last, kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_next(kz_monouuid *gen, kz_uuid *uuid);
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_next_at(kz_monouuid *gen, int64_t now_ns, kz_uuid *uuid);
KZ_API void kz_monouuid_free(kz_monouuid *gen);

/* Is it one of ours? */
KZ_API bool kz_monouuid_valid(const kz_uuid *uuid);
/* Its node and time. KZ_INVALID: not one of ours, and why. */
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_parse(const kz_uuid *uuid, uint32_t *node, int64_t *unix_ns, kz_error *err);
/* The smallest UUID of this kind at an instant, whatever its node: for range scans. KZ_INVALID: before 1970. */
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_min(int64_t unix_ns, kz_uuid *uuid, kz_error *err);
/* The same of one node; 0 is below all of them. KZ_INVALID too: a node above 16777215. */
KZ_API KZ_MUST_CHECK kz_status kz_monouuid_min_of(uint32_t node, int64_t unix_ns, kz_uuid *uuid, kz_error *err);
/* Any UUID as 36 characters in lower case, and back (either case). KZ_INVALID: not a UUID, and why. */
KZ_API void kz_uuid_text(const kz_uuid *uuid, char text[KZ_AT_LEAST(KZ_UUID_TEXT_SIZE)]);
KZ_API KZ_MUST_CHECK kz_status kz_uuid_from_text(const char *text, kz_uuid *uuid, kz_error *err);

/* ---------------------------------------------------------------------------------------------------------------------
 * 9. Sources: writing one, looking at one
 *
 * A source grants leases: rectangles, a block of slots times a span of time. The library's own sources are written to
 * this interface too. What a source must promise: no two leases it ever granted overlap, and it remembers that before
 * it answers; a lease is half open, [created, expired); its time never goes back; a release names a lease by its
 * secret, and the slots are granted again only for times after the release's timestamp. Uniqueness rests on this and on
 * nothing else, so a source that cannot keep it says so in `durable` and `note` of its health.
 * ------------------------------------------------------------------------------------------------------------------ */

#define KZ_SECRET_SIZE      65 /* up to 64 characters and a terminating zero */
#define KZ_SIGNATURE_SIZE   65 /* 64 hex digits and a terminating zero */
#define KZ_REQUEST_ID_SIZE  16
#define KZ_GRANT_LEASES_MAX 256
#define KZ_HOLDER_SIZE      256
#define KZ_SERVICE_SIZE     64

/* A lease: node `id` of its layout for [created_ms, expired_ms), and its twin in the fallback half, node
 * id + 2^(node_bits - 1), for [fallback_created_ms, fallback_expired_ms). Times are Unix ms. */
typedef struct kz_lease {
    int64_t created_ms, expired_ms;
    int64_t fallback_created_ms, fallback_expired_ms; /* equal: without a twin */
    int64_t epoch_ms;
    uint32_t id;
    uint8_t reserved_bits, time_bits, node_bits, seq_bits;
    char secret[KZ_SECRET_SIZE]; /* signs the release; empty if the source wants none */
} kz_lease;

/* What a client did since it last told its source. Sources that add it up get it with acquires and releases that they
 * would get anyway; others leave it alone. An answer that is lost is told twice. */
typedef struct kz_usage {
    uint64_t ids, fenced, unfenced; /* IDs by kind: leased, and fallback */
    uint64_t exhausted;             /* milliseconds whose slots were used up while more were wanted */
    uint64_t clock_back;            /* steps of the clock backwards */
} kz_usage;

typedef struct kz_acquire {
    const char *service;                    /* "default" unless the options say otherwise */
    const char *holder;                     /* who asks, for people: a JSON object of texts, below KZ_HOLDER_SIZE */
    uint32_t throughput_per_ms;             /* how many IDs a millisecond the leases together must allow; at least 1 */
    uint8_t request_id[KZ_REQUEST_ID_SIZE]; /* random; asking twice is asking once */
    int64_t from_ms;                        /* Unix ms: the caller's clock or its last ID, whichever is later */
    const kz_lease *holds; /* the lease to be succeeded, or NULL: some sources make it longer, and a table that does not
                              know it has gone back in time */
    const kz_usage *used;  /* or NULL */
} kz_acquire;

typedef struct kz_grant {
    int64_t source_ms;   /* the source's time when it answered */
    uint64_t generation; /* only grows; 0: the source has none */
    kz_id resume; /* nothing below may be minted: a mark that outlived a restart, the same in every grant; 0: none */
    int64_t grace_ms;       /* how far such a mark may be ahead of the clock by design */
    int64_t renew_after_ms; /* when to ask for the next one; 0: by the generator's option renew_at */
    size_t count;
    kz_lease leases[KZ_GRANT_LEASES_MAX];
} kz_grant;

/* `signature`: hex HMAC-SHA256 of "id:timestamp_ms" in decimal, keyed with the bytes of the lease's secret. */
typedef struct kz_release {
    const char *service;
    uint32_t id;
    int64_t timestamp_ms; /* no ID later than this was or will be minted from the lease; the source's time or later */
    kz_id next;           /* exactly: no ID at or above this one */
    const char *signature;
    const kz_usage *used; /* or NULL */
} kz_release;

/* What a line of the table is. A reserved range is granted to nobody. */
typedef enum kz_lease_kind { KZ_LINE_LEASE = 0, KZ_LINE_RESERVED = 1 } kz_lease_kind;

/* A line of the table, without the secret: a rectangle, and its twin's. */
typedef struct kz_lease_info {
    char service[KZ_SERVICE_SIZE];
    char holder[KZ_HOLDER_SIZE]; /* as it was sent; a reserved range's note */
    kz_lease_kind kind;
    uint32_t id;
    uint32_t nodes;              /* a reserved range has this many nodes from `id` on; a lease has 1 */
    uint8_t node_bits, seq_bits; /* `id` counts in blocks of 2^seq_bits slots; 0 and 0: not known */
    int64_t created_ms;          /* 0: not known */
    int64_t expired_ms;          /* INT64_MAX: it has no end */
    int64_t fallback_created_ms, fallback_expired_ms; /* equal: without a twin */
} kz_lease_info;

/* Called for each line; false ends the listing. */
typedef bool (*kz_lease_visit)(void *ctx, const kz_lease_info *info);

/* Where a listing begins: at this line, or where it would stand. Lines are in the order of service (byte by byte) and
 * id, so the next page begins at the last line's id + 1. */
typedef struct kz_list_from {
    const char *service;
    uint32_t id;
    bool only_id; /* only leases of this number, from that service on. A source may list others too: look at each */
} kz_list_from;

/* What a source knows about itself, for doctor and health. */
typedef struct kz_source_health {
    int64_t source_ms;
    uint64_t generation;
    uint64_t leases_out;        /* held now */
    uint64_t nodes_free;        /* that could be granted now */
    bool durable;               /* an answered grant survives a crash of the store */
    char note[KZ_MESSAGE_SIZE]; /* what it cannot promise, and what to do; or empty */
    kz_layout layout;           /* of the service asked about */
    int64_t lease_ms;
} kz_source_health;

/* What can be said about a service. Fields left at their zero stay as they are. */
typedef struct kz_service_settings {
    const char *service;
    const kz_layout *layout; /* once a lease was granted only node and sequence bits may change, and not their sum */
    int64_t lease_ms;
    uint32_t max_throughput; /* per ms, that one request may ask for */
    int high_blocks;         /* 1: one higher block answers a large request, -1: several leases do */
} kz_service_settings;

typedef struct kz_source_options {
    const kz_layout *layout; /* NULL: the source's own default */
    kz_fallback fallback;
    const char *service;
    kz_log_fn log;
    void *log_ctx;
    const kz_clock *clock; /* never NULL */
    int64_t timeout_ms;    /* for one exchange with the source */
    uint32_t max_services; /* as in kz_options */
} kz_source_options;

enum {
    KZ_SOURCE_WALL_CLOCK = 1, /* IDs take their time from the wall clock, not from source_ms */
    KZ_SOURCE_SAME_HOST = 2,  /* its clock is this machine's: no drift is allowed for */
    KZ_SOURCE_FIXED = 4,      /* grants one fixed place: a forked child cannot have one of its own */
    KZ_SOURCE_CONTENDED = 16, /* another process on this host has the same fixed place */
    KZ_SOURCE_UNFENCED = 8    /* what it grants, others may have too: its IDs promise nothing, and are counted so */
};

typedef struct kz_source_facts {
    kz_layout layout;           /* of its IDs as far as known before the first lease */
    uint32_t flags;             /* KZ_SOURCE_*; a child that finds others than its parent gets no ID until they are */
    uint32_t throughput_per_ms; /* the most that one generator can get from it; 0: no limit */
} kz_source_facts;

/* A kind of source. Calls on one open source never overlap, calls on two may. All may block, none is made by a thread
 * that mints: kz_open makes them until the first lease is there, then the keeper. On failure the outputs are untouched
 * and `err` is filled. All but open and close may be NULL; without acquire there are unfenced IDs only.
 *
 * What a failed acquire means to the keeper: KZ_UNAVAILABLE, the fate of the request is unknown, so the same request_id
 * is asked again; any other status, nothing was granted, and the next try is a new request. kz_open waits and tries
 * again after KZ_UNAVAILABLE only. A release that gives KZ_NOT_FOUND counts as done.
 *
 * KZ_LOST from acquire or now: what the caller holds from this source is not its own any more. The keeper drops all of
 * it, so that nothing more is minted there, and acquires anew at once.
 *
 * A lease without a twin on the node and with the secret of one that is held, with no gap between, makes that one
 * longer: both are given back by one release. */
/* Nodes of a lease table that are kept for somebody who takes no lease: a fixed device, another generator's numbers. */
typedef struct kz_node_range {
    uint32_t first, last;
} kz_node_range;

typedef struct kz_reservation {
    const char *service;         /* NULL: the one that the options or the URL name */
    const kz_node_range *ranges; /* at most 6 are reserved in a service */
    size_t count;
    int64_t until_ms; /* Unix ms of the table's clock; 0: for ever */
    const char *note; /* for people: below 64 bytes, no control characters; NULL: none */
    bool end;         /* frees them instead; until_ms and note do not matter then */
} kz_reservation;

typedef struct kz_source_ops {
    size_t struct_size;
    const char *scheme; /* "redis": URLs that begin with "redis:" */
    kz_status (*open)(void **source, const char *url, const kz_source_options *options, kz_source_facts *facts,
                      kz_error *err);
    kz_status (*acquire)(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err);
    kz_status (*release)(void *source, const kz_release *release, kz_error *err);
    kz_status (*now)(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err);
    /* `from` may be NULL: from the first line on. What comes before it costs nothing, if the source can help it. */
    kz_status (*list)(void *source, const kz_list_from *from, kz_lease_visit visit, void *ctx, kz_error *err);
    kz_status (*health)(void *source, const char *service, kz_source_health *health, kz_error *err);
    /* Acquires and releases between the two are made durable together, by the second: their answers count only if that
     * gives KZ_OK. KZ_AGAIN: somebody else was faster, nothing was written; begin anew, with the same requests. Both or
     * neither; without them each call stands by itself. */
    kz_status (*group_begin)(void *source, kz_error *err);
    kz_status (*group_commit)(void *source, kz_error *err);
    /* Makes a service with these settings, or changes one. KZ_MISMATCH: it has granted leases with another layout. */
    kz_status (*configure)(void *source, const kz_service_settings *settings, kz_error *err);
    /* Reserves nodes, or frees reserved ones: all of them or none. */
    kz_status (*reserve)(void *source, const kz_reservation *reservation, kz_error *err);
    /* `forked`: in a child that must not touch what it shares with its parent (connections, files, locks). */
    void (*close)(void *source, bool forked);
} kz_source_ops;

/* Adds a kind of source. KZ_IN_USE: the scheme exists. KZ_INVALID: struct_size, scheme, open or close is missing.
 * KZ_UNSUPPORTED: there are 64 kinds already. Register before opening, from one thread. `ops` is kept, not copied. */
KZ_API KZ_MUST_CHECK kz_status kz_source_register(const kz_source_ops *ops, kz_error *err);

/* The hex HMAC-SHA256 that a release carries. */
KZ_API void kz_release_sign(const char *secret, uint32_t id, int64_t timestamp_ms,
                            char signature[KZ_AT_LEAST(KZ_SIGNATURE_SIZE)]);

/* A source without a generator: for tools. `url` as for kz_open, and fails as it does, but without asking for a lease.
 * One thread at a time may use it, and not in a forked child. */
typedef struct kz_source kz_source;
KZ_API KZ_MUST_CHECK kz_status kz_source_open(kz_source **source, const char *url, const kz_options *options,
                                              kz_error *err);
/* The calls of kz_source_ops, as the keeper makes them. All give KZ_UNSUPPORTED if the source has no such call, and
 * KZ_UNAVAILABLE (try again) or KZ_STORE (see to it) if the store fails.
 *
 * acquire: KZ_NO_FREE_NODE; KZ_CONFLICT, the same request_id with another throughput; KZ_INVALID, a throughput of 0 or
 * above what the service allows; KZ_MISMATCH. A lease that was taken so must be given back by hand, or ends by itself.
 * release: KZ_NOT_FOUND, no such lease is out; KZ_FORBIDDEN, the signature is not its secret's; KZ_INVALID, the
 * timestamp is more than 30 s off the source's time. Nothing changes then. */
KZ_API KZ_MUST_CHECK kz_status kz_source_acquire(kz_source *source, const kz_acquire *request, kz_grant *grant,
                                                 kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_source_release(kz_source *source, const kz_release *release, kz_error *err);
/* See group_begin: nothing if the source has no such thing. group_commit may give KZ_AGAIN: make all of it anew. */
KZ_API KZ_MUST_CHECK kz_status kz_source_group_begin(kz_source *source, kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_source_group_commit(kz_source *source, kz_error *err);
/* KZ_UNSUPPORTED: settings of this source's services cannot be changed by it. KZ_MISMATCH names both layouts. */
KZ_API KZ_MUST_CHECK kz_status kz_source_configure(kz_source *source, const kz_service_settings *settings,
                                                   kz_error *err);
/* Sets nodes of a lease table aside, or frees such nodes: all ranges or none. They show in its listings (kind,
 * KZ_LINE_RESERVED). KZ_IN_USE: a lease is out on one of them; the message says for how long. KZ_INVALID: a range that
 * the service does not have, a time that is over, a note that is too long, or more than 6 ranges in all. */
KZ_API KZ_MUST_CHECK kz_status kz_source_reserve(kz_source *source, const kz_reservation *reservation, kz_error *err);
/* Its time. It does not go behind an answered one, but for a second at most, and only after a crash of the store with
 * its clock set back: asking need not cost a write. */
KZ_API KZ_MUST_CHECK kz_status kz_source_now(kz_source *source, int64_t *source_ms, uint64_t *generation,
                                             kz_error *err);
/* The leases that are out, in the order of service and id, without secrets. Whoever wants a page ends it by returning
 * false, and goes on with kz_source_list_from. It is no snapshot: what comes and goes meanwhile may be seen or not. */
KZ_API KZ_MUST_CHECK kz_status kz_source_list(kz_source *source, kz_lease_visit visit, void *ctx, kz_error *err);
KZ_API KZ_MUST_CHECK kz_status kz_source_list_from(kz_source *source, const kz_list_from *from, kz_lease_visit visit,
                                                   void *ctx, kz_error *err);
/* Of the service that the options or the URL name. */
KZ_API KZ_MUST_CHECK kz_status kz_source_health_get(kz_source *source, kz_source_health *health, kz_error *err);
/* Its URL, the default's if none was given. It may hold a password: do not show it as it is. */
KZ_API const char *kz_source_url(const kz_source *source);
/* Gives no lease back. NULL is allowed. */
KZ_API void kz_source_close(kz_source *source);

/* ---------------------------------------------------------------------------------------------------------------------
 * 10. Caveats
 *
 * Threads. A generator on a lease table, and one with state=, has a thread of its own, the keeper: it asks for leases,
 *   hands over, gives back, or writes the mark. It blocks all signals, holds no lock while it waits for the source, and
 *   ends in kz_close. Minting threads never wait for it while there is a point to give. kz_options, kz_stats, layouts,
 *   texts and keys are plain values: share them for reading.
 * fork. A child's copy of a generator holds nothing; this is noticed without a system call for each ID, whatever made
 *   the child (fork, clone without CLONE_VM), and needs Linux 4.14. With sqlite:, redis:, postgres:, tsid+redis: and
 *   http: the child's next call takes a lease of its own, with a keeper of its own: kz_next waits for it, kz_try_next
 *   gives KZ_AGAIN until it is there. With static:, env:, standalone: and memory: it gives KZ_FORKED: open a generator
 * in the child, with another node. A memory: table of the child's knows nothing of its parent's, so the two may repeat
 * each other. kz_close in a child that has not minted frees memory and touches nothing of the parent's. sqlite: uses
 *   pthread_atfork: a fork waits for the calls under way and closes the file, and each side opens it again by itself. A
 *   process made by clone past those handlers gets KZ_FORKED from it. kz_mono and kz_monouuid do not notice a fork.
 *   Where the kernel only says that it wipes memory (some emulators), fork() is still noticed, by a handler; clone is
 * not. Signals. No call may be made from a signal handler. A sleeping call goes on sleeping through handled signals. A
 *   process that is killed gives nothing back: its leases end by themselves, and their places are free again then.
 * Late IDs. A process that was stopped between reading the clock and returning returns an old time, and one that was
 *   suspended may still mint inside its old window. Such IDs are unique, but "everything below X is final" never holds.
 * Order. Within one generator an ID is larger than all that were returned before the call began, across handovers,
 *   fallback and clock steps. Between generators order holds only as well as their clocks agree: with a lease table,
 *   the latency of an answer and 500 ppm of drift between two looks at its time.
 * Spaces. IDs of two services, two tables or two layouts may be equal: they are different ID spaces. So are a static:
 *   node and a lease table; do not mix them for one kind of ID.
 * Node numbers. Two processes with the same static: or env: node mint the same IDs; nothing can tell them. One process
 *   that tries it is refused.
 * Restarts. With leases nothing has to be remembered: a new process asks afresh. A static: or env: node without state=
 *   remembers nothing either: if the clock was set back meanwhile, IDs can repeat.
 * Copies. A cloned virtual machine or a restored process image holds the same rectangles as its original, and both mint
 *   the same IDs until these end; on a TSID slot, until one of the two is started again. Nothing here prevents it:
 *   close before the snapshot, or open after it.
 * Stores that forget. A lease table that loses a grant it has answered grants the same place again: Redis without
 *   appendfsync always or with asynchronous failover, a file on a network disk. Generators that saw the later state
 *   notice, and refuse until what was forgotten has ended (KZ_STORE, "went back in time"); those that start afresh
 *   cannot. A lease file that is replaced by an older copy of itself sets aside what it may have forgotten. With
 *   ?amnesia=quarantine a table that is empty grants nothing until all that may be out has ended.
 * Unfenced IDs (standalone:, or fallback = any without a lease) promise nothing: they are random in 21 bits a
 *   millisecond in the default layout. They share the upper half of the nodes with the fenced ones, so one generator
 *   that uses them puts the fenced IDs of all others at that risk.
 * ------------------------------------------------------------------------------------------------------------------ */

#ifdef __cplusplus
}
#endif

#endif
