/* What every harness here does, whatever its language. It reads lines from its input,
 *
 *     NAME THREADS
 *
 * lets that many threads (1 or 2) take IDs from one generator at the same time, and answers each with a line,
 *
 *     NS TWINS DISORDER AHEAD_MS OLD_MS
 *
 * the nanoseconds a thread needed for an ID (nan if the two were not at it at the same time), how many IDs were equal,
 * how many were not above the thread's last one, and by how much the last one was ahead of the clock or behind it when
 * it had come. It ends with its input.
 *
 * Those in C and Rust also know what tells generators apart that do not ask the clock in every call, and processes that
 * fork:
 *
 *     NAME age      twice as many threads as there are processors take IDs for half a second, each after a look at the
 *                   clock. The answer: by how many ms an ID was behind what the clock had shown before the call.
 *     NAME fork     a child and its parent both take IDs. The answer: how many the child got, how many of those were
 *                   equal to the parent's, and by how many ms the one was behind that it took a tenth of a second
 * later.
 */
#ifndef KZ_PEERS_HARNESS_H
#define KZ_PEERS_HARNESS_H

#include <stddef.h>
#include <stdint.h>

typedef struct peer {
    const char *name;
    size_t id_bytes, count; /* how many IDs a thread takes for one answer */
    void (*fill)(void *ids, size_t count);
    int (*compare)(const void *a, const void *b);
    int64_t (*unix_ms)(const void *id); /* NULL: its order is not that of time, and is not looked at */
} peer;

int serve(const peer *peers, size_t peer_count);

#endif
