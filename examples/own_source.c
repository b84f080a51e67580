/* Introduces kz_source_register: a kind of source of one's own, counter:, which gives every request the next node.
 *
 * What it has to promise, and how it keeps it:
 *   no two leases overlap           a node number is granted once and never again, under a lock
 *   remembered before it answers    in memory: for one process, whose children are refused. A store that outlives the
 *                                   process would let many use it, and keep the promise across a clock set back
 *   half open                       [created, expired): the first millisecond after it is not in it
 *   its time never goes back        the wall clock is read once, the boot clock, which never jumps, carries it on */
#include <inttypes.h>
#include <kazahana.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS 1000000
#define LEASE_MS  3600000
#define LEASABLE  8192 /* the lower half of 14 node bits */
#define PER_LEASE 256  /* 8 sequence bits */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;        /* the process whose memory this is; 0: nobody yet */
static uint32_t next_node; /* below it everything has been granted */
static int64_t wall_minus_boot_ns;

typedef struct counter {
    kz_clock clock;
} counter;

static kz_status fail(kz_error *err, kz_status status, const char *format, ...)
{
    if (err) {
        *err = (kz_error){.status = status};
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

static int64_t now_ms(const counter *c)
{
    return (wall_minus_boot_ns + c->clock.boot_ns(c->clock.ctx)) / NS_PER_MS;
}

static kz_status counter_open(void **source, const char *url, const kz_source_options *options, kz_source_facts *facts,
                              kz_error *err)
{
    if (strcmp(url, "counter:") != 0)
        return fail(err, KZ_INVALID, "%s: counter: takes nothing behind the colon", url);
    /* Numbers of one layout would overlap with those of another. */
    if (options->layout && strcmp(options->layout->name, "kazahana") != 0)
        return fail(err, KZ_MISMATCH, "counter: has layout kazahana only");
    counter *c = calloc(1, sizeof *c);
    if (!c)
        return fail(err, KZ_NO_MEMORY, "no memory for a source");
    c->clock = *options->clock;
    pthread_mutex_lock(&lock);
    if (!owner) {
        owner = getpid();
        wall_minus_boot_ns = c->clock.wall_ns(c->clock.ctx) - c->clock.boot_ns(c->clock.ctx);
    }
    bool ours = owner == getpid();
    pthread_mutex_unlock(&lock);
    if (!ours) {
        free(c);
        return fail(err, KZ_FORKED, "counter: belongs to the parent process");
    }
    /* FIXED: a child's copy of a generator must not go on by itself, it gives KZ_FORKED. */
    *facts = (kz_source_facts){.layout = *kz_layout_preset(0), .flags = KZ_SOURCE_SAME_HOST | KZ_SOURCE_FIXED};
    *source = c;
    return KZ_OK;
}

static kz_status counter_acquire(void *source, const kz_acquire *request, kz_grant *grant, kz_error *err)
{
    const counter *c = source;
    const kz_layout *layout = kz_layout_preset(0);
    size_t wanted = (request->throughput_per_ms + (size_t)PER_LEASE - 1) / PER_LEASE;
    if (wanted > KZ_GRANT_LEASES_MAX)
        wanted = KZ_GRANT_LEASES_MAX;
    pthread_mutex_lock(&lock);
    int64_t now = now_ms(c);
    uint32_t first = next_node;
    size_t count = wanted < LEASABLE - first ? wanted : LEASABLE - first; /* fewer if fewer are left */
    uint64_t generation = next_node += (uint32_t)count;
    pthread_mutex_unlock(&lock);
    if (!count)
        return fail(err, KZ_NO_FREE_NODE, "all %d nodes have been granted", LEASABLE);
    grant->source_ms = now;
    grant->generation = generation; /* only grows: an older number would show that something was lost */
    grant->count = count;
    for (size_t i = 0; i < count; i++)
        grant->leases[i] = (kz_lease){.id = first + (uint32_t)i,
                                      .created_ms = now,
                                      .expired_ms = now + LEASE_MS,
                                      .fallback_created_ms = now + LEASE_MS, /* no twin */
                                      .fallback_expired_ms = now + LEASE_MS,
                                      .epoch_ms = layout->epoch_ms,
                                      .reserved_bits = 64 - 41 - 14 - 8,
                                      .time_bits = layout->time_bits,
                                      .node_bits = layout->node_bits,
                                      .seq_bits = layout->seq_bits};
    return KZ_OK;
}

static kz_status counter_now(void *source, int64_t *source_ms, uint64_t *generation, kz_error *err)
{
    (void)err;
    pthread_mutex_lock(&lock);
    *source_ms = now_ms(source);
    *generation = next_node;
    pthread_mutex_unlock(&lock);
    return KZ_OK;
}

static void counter_close(void *source, bool forked)
{
    (void)forked; /* memory is all there is */
    free(source);
}

/* No release: a number that was given back would not be granted again anyway. */
static const kz_source_ops counter_ops = {.struct_size = sizeof(kz_source_ops),
                                          .scheme = "counter",
                                          .open = counter_open,
                                          .acquire = counter_acquire,
                                          .now = counter_now,
                                          .close = counter_close};

/* Two generators that mint by turns: no ID of one is an ID of the other. */
static int use(kz_generator *gens[2])
{
    kz_layout layout;
    kz_generator_layout(gens[0], &layout);
    uint32_t node[2] = {0, 0};
    kz_id last[2] = {0, 0};
    for (int i = 0; i < 2000; i++) {
        kz_id id;
        kz_parts parts;
        kz_error err;
        if (kz_mint(gens[i % 2], &id, 1, 1000, &err) || kz_decode(&layout, id, &parts, &err)) {
            fprintf(stderr, "own_source: %s\n", err.message);
            return 1;
        }
        if (id <= last[i % 2] || (i > 1 && parts.node != node[i % 2])) {
            fprintf(stderr, "own_source: %" PRIu64 " is out of place\n", id);
            return 1;
        }
        last[i % 2] = id;
        node[i % 2] = parts.node;
    }
    printf("1000 IDs of node %" PRIu32 ", the last %" PRIu64 "\n", node[0], last[0]);
    printf("1000 IDs of node %" PRIu32 ", the last %" PRIu64 "\n", node[1], last[1]);
    return node[0] == node[1];
}

int main(void)
{
    kz_error err;
    if (kz_source_register(&counter_ops, &err)) {
        fprintf(stderr, "own_source: %s\n", err.message);
        return 1;
    }
    kz_generator *gens[2] = {NULL, NULL};
    int result = 1;
    if (kz_open(&gens[0], "counter:", NULL, &err) || kz_open(&gens[1], "counter:", NULL, &err))
        fprintf(stderr, "own_source: %s\n", err.message);
    else
        result = use(gens);
    kz_close(gens[0]);
    kz_close(gens[1]);
    return result;
}
