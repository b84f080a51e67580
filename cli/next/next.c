/* kazahana next: mints IDs and prints them. */
#include "cli/args.h"
#include "cli/next/idlines.h"
#include "cli/next/pace.h"
#include "cli/next/progress.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/stop.h"
#include "cli/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH_MAX = 4096,
    BATCH_STEPS = 16, /* a batch is what one lease gives in so many steps of the time field, or 16 leases in one */
    SLICE_MS = 100    /* a call of the library sleeps through signals, so it is never asked for longer */
};

struct job {
    uint64_t count;
    const char *url;
    kz_options options;
    bool timeout_given;
    enum id_format format;
    const char *key_file;
    kz_external_keys *keys;
    double rate;
    kz_generator *gen;
};

static void read_args(const struct command *command, int argc, char **argv, struct job *job)
{
    enum { COUNT, FROM, FORMAT, KEY_FILE, RATE, SERVICE, LAYOUT, TIMEOUT };
    /* From TIMEOUT on they are the library's, and set by their names. */
    static const struct arg_option options[] = {
        [COUNT] = {"count", 'n', true},
        [FROM] = {"from", 0, true},
        [FORMAT] = {"format", 0, true},
        [KEY_FILE] = {"key-file", 0, true},
        [RATE] = {"rate", 0, true},
        [SERVICE] = {"service", 0, true},
        [LAYOUT] = {"layout", 0, true},
        [TIMEOUT] = {"timeout", 0, true},
        {"backward", 0, true},
        {"fallback", 0, true},
        {"throughput", 0, true},
        {"seq-start", 0, true},
        {"clock", 0, true},
        {0},
    };
    static const char *const formats[] = {"dec", "hex", "base32", "base62", "base64url", "external", "json", NULL};
    struct args args;
    args_begin(&args, command, options, argc, argv);
    for (int option; (option = args_next(&args)) >= 0;) {
        if (option == COUNT)
            job->count = args_number(&args, 0, UINT64_C(1) << 63);
        else if (option == FROM)
            job->url = args.value;
        else if (option == FORMAT)
            job->format = (enum id_format)args_choice(&args, formats);
        else if (option == KEY_FILE)
            job->key_file = args.value;
        else if (option == RATE)
            job->rate = args_rate(&args);
        else if (option == SERVICE)
            job->options.service = args.value;
        else if (option == LAYOUT)
            job->options.layout = args.value;
        else
            args_set(&args, &job->options);
        job->timeout_given |= option == TIMEOUT;
    }
    args_no_operands(&args);
    if (job->key_file && job->format != FORMAT_EXTERNAL)
        report_usage(command, "--key-file goes with --format external");
    /* Who allows a wait of 20 s does not want to be stopped by a default of 10 s. */
    int64_t wait_ms = job->options.backward == KZ_BACKWARD_WAIT ? job->options.max_backward_ms : 0;
    if (!job->timeout_given && (wait_ms < 0 || wait_ms >= job->options.timeout_ms))
        job->options.timeout_ms = wait_ms < 0 ? -1 : wait_ms + 1000;
}

/* How many to ask for at once: enough for all leases that the throughput may need, and never so many that one lease
 * alone would take as long as a slice. */
static size_t batch_size(const struct job *job)
{
    kz_layout layout;
    kz_layout_facts facts;
    if (job->options.timeout_ms == 0)
        return 1;
    kz_generator_layout(job->gen, &layout);
    kz_layout_describe(&layout, &facts);
    return facts.ids_per_step < BATCH_MAX / BATCH_STEPS ? (size_t)facts.ids_per_step * BATCH_STEPS : BATCH_MAX;
}

/* Nothing to be had now, but perhaps in a moment: the keeper of the leases goes on trying. */
static bool may_pass(kz_status status)
{
    return status == KZ_TIMEOUT || status == KZ_AGAIN || status == KZ_LEASE_ACQUISITION;
}

/* May a clock that is so far behind be waited for, when a slice is too short for it but there is more time left? */
static bool worth_waiting(const struct job *job, int64_t backward_ms, int64_t left_ms)
{
    int64_t max_ms = job->options.max_backward_ms;
    return job->options.backward == KZ_BACKWARD_WAIT && (max_ms < 0 || backward_ms <= max_ms) &&
           (left_ms < 0 || backward_ms <= left_ms);
}

/* One ID within timeout_ms, in slices, so that a signal is heeded meanwhile. */
static kz_status mint_patiently(const struct job *job, kz_id *id, kz_error *err)
{
    int64_t timeout_ms = job->options.timeout_ms, begin_ns = times_boot_ns(), waited_ms = 0;
    for (;;) {
        int64_t left_ms = timeout_ms < 0 ? -1 : timeout_ms > waited_ms ? timeout_ms - waited_ms : 0;
        int64_t slice_ms = left_ms < 0 || left_ms > SLICE_MS ? SLICE_MS : left_ms;
        kz_status status = kz_mint(job->gen, id, 1, slice_ms, err);
        bool clock_back = status == KZ_CLOCK_BACKWARD;
        if (stop_signal() || !(may_pass(status) || clock_back))
            return status;
        /* With all the time there is, so that the message is about that and not about a slice. */
        if (clock_back && !worth_waiting(job, err->backward_ms, left_ms))
            return kz_mint(job->gen, id, 1, left_ms, err);
        if (slice_ms == left_ms) {
            if (timeout_ms > 0 && status != KZ_LEASE_ACQUISITION)
                snprintf(err->message, sizeof err->message, "no ID within %" PRId64 " ms (see --timeout)", timeout_ms);
            return status;
        }
        stop_or_sleep_until(begin_ns + (waited_ms + slice_ms) * 1000000);
        waited_ms = (times_boot_ns() - begin_ns) / 1000000;
    }
}

/* Up to `want` IDs. */
static kz_status mint(const struct job *job, struct output *out, kz_id *ids, size_t want, size_t *got, kz_error *err)
{
    *got = 0;
    kz_status status = kz_mint(job->gen, ids, 1, 0, err);
    if (may_pass(status) || status == KZ_CLOCK_BACKWARD) {
        /* What is minted must not sit here while we wait. */
        output_flush(out);
        status = mint_patiently(job, ids, err);
    }
    if (status != KZ_OK)
        return status;
    /* A batch that fails gives nothing; whatever stopped it, the next round waits for it or reports it. */
    bool whole = want > 1 && kz_mint(job->gen, ids + 1, want - 1, SLICE_MS, err) == KZ_OK;
    *got = whole ? want : 1;
    return KZ_OK;
}

static void print(struct id_lines *lines, struct output *out, const kz_id *ids, size_t count)
{
    enum { AT_ONCE = OUTPUT_SIZE / 4 / ID_LINE_ROOM };
    for (size_t done = 0, next; done < count; done += next) {
        next = count - done < AT_ONCE ? count - done : AT_ONCE;
        char *at = output_room(out, next * ID_LINE_ROOM);
        output_took(out, (size_t)(id_lines_write(lines, ids + done, next, at) - at));
    }
}

static int mint_all(const struct job *job)
{
    struct output out;
    struct id_lines lines;
    struct progress progress;
    struct pace pace;
    kz_error err = {0};
    kz_status status = KZ_OK;
    kz_id ids[BATCH_MAX];
    uint64_t done = 0;
    size_t batch = batch_size(job);
    output_begin(&out);
    id_lines_begin(&lines, job->format, job->keys);
    progress_begin(&progress, job->count);
    pace_begin(&pace, job->rate);
    while (done < job->count && status == KZ_OK && !out.error) {
        size_t want = job->count - done < batch ? (size_t)(job->count - done) : batch, got;
        want = pace_wait(&pace, want);
        if (stop_signal())
            break;
        status = mint(job, &out, ids, want, &got, &err);
        print(&lines, &out, ids, got);
        done += got;
        if (out.terminal || job->rate > 0)
            output_flush(&out);
        progress_update(&progress, done);
    }
    progress_end(&progress);
    int result = output_end(&out);
    if (stop_signal())
        return 128 + stop_signal();
    if (status != KZ_OK)
        return report_failure("%s", err.message);
    return result;
}

/* Opens the source. While it does not answer nothing is held, and a signal may end the program. */
static int open_generator(const struct command *command, struct job *job)
{
    kz_error err;
    stop_watch();
    stop_leave_when_overdue(true);
    kz_status status = kz_open(&job->gen, job->url, &job->options, &err);
    stop_leave_when_overdue(false);
    if (status == KZ_OK)
        return EXIT_DONE;
    return stop_signal() ? 128 + stop_signal() : report_unopened(command, job->url, &err);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct job job = {.count = 1};
    kz_error err;
    kz_options_init(&job.options);
    job.options.log = report_log;
    read_args(command, argc, argv, &job);
    if (job.key_file && kz_external_keys_load(&job.keys, job.key_file, &err) != KZ_OK)
        return report_failure("%s", err.message);
    int result = open_generator(command, &job);
    if (result == EXIT_DONE)
        result = mint_all(&job);
    kz_close(job.gen);
    kz_external_keys_free(job.keys);
    return result;
}

static const char help[] =
    "Usage: kazahana next [OPTION]...\n"
    "\n"
    "Mints IDs and prints them, one a line, each larger than the one before.\n"
    "\n"
    "  -n, --count COUNT     how many (1)\n"
    "      --from URL        the source of the node number; unless given, sqlite: in $XDG_STATE_HOME/kazahana:\n"
    "                          sqlite:/path/leases.db      leases from a file, for all processes of this machine\n"
    "                          redis://[:pass@]host/db     leases from Redis, for many machines; rediss:// with TLS\n"
    "                          redis+sentinel://h1,h2/name/db   the same, from the master that sentinels name;\n"
    "                                                      rediss+sentinel:// with TLS\n"
    "                          postgres://user@host/db     leases from PostgreSQL, for many machines; postgresql://\n"
    "                          http://host:7070            leases from kazahana serve; https:// with TLS\n"
    "                          http+unix:///run/kazahana/kazahana.sock   the same, by a Unix socket of this machine\n"
    "                          tsid+redis://host/db        a TSID slot in Redis, sys:tsid:node:0 .. 1023; "
    "tsid+rediss://\n"
    "                          memory:                     leases inside this process alone\n"
    "                          static:7                    node 7; nobody else may use it\n"
    "                          static:7?state=/path/file   the same, safe across restarts with a wrong clock\n"
    "                          env:WORKER_ID               from an environment variable; ?default=0\n"
    "                          standalone:                 no coordinator, no promise\n"
    "                        ?lease=10min is how long a lease lasts, for a service that does not exist yet\n"
    "      --service S       the ID space in a lease table (default)\n"
    "      --layout L        a preset (see kazahana layout) or TIME-NODE-SEQ@EPOCH; a service keeps its first\n"
    "      --format F        dec (default), hex, base32, base62, base64url, external, json\n"
    "      --key-file F      keys for --format external (see kazahana external)\n"
    "      --backward P      when the clock went back: fail, wait:MS (default wait:5000), logical\n"
    "      --fallback F      IDs without a lease: never, fenced (default), any\n"
    "      --throughput T    IDs a millisecond to lease, MIN:MAX: at the start, and at most when more are wanted "
    "(256)\n"
    "      --timeout MS      how long one ID may take (10000); 0 never waits, forever has no limit\n"
    "      --rate N/s        no faster than this; also N/min and N/h\n"
    "      --seq-start S     where a millisecond's sequence begins: zero (default), random\n"
    "      --clock C         precise (default), coarse: up to one kernel tick old\n"
    "\n"
    "SIGINT, SIGTERM, SIGHUP or a reader that goes away end it in good order: its leases are given back.\n"
    "\n"
    "Examples:\n"
    "  kazahana next\n"
    "  kazahana next -n 1000 --from redis://localhost/0 --service payments\n"
    "  kazahana next -n 5000000 --throughput 256:4096 > ids\n"
    "  kazahana next -n 1000000 --from static:5 --layout snowflake > ids\n"
    "  WORKER_ID=7 kazahana next --from env:WORKER_ID --layout snowflake --backward fail\n"
    "  kazahana next --from static:7 --rate 10/s -n 100 --format base32\n";

const struct command next_command = {"next", "mint IDs and print them", help, run};
