/* The lease protocol: a source with a table, clients that mint, and a network that does as it likes.
 *
 * A point is a time and a slot, a lease is a block of slots for LENGTH times. Every branch of a loop below is one atomic
 * step; between two steps anybody may be held up for ever.
 *
 * Clocks: the source's wall clock shows any time at any moment, across restarts too. A client's clock shows any time at
 * any look, so a client may choose any point that it holds above its last.
 * Messages: what was once sent can arrive at any time, any number of times, in any order, or never. An acquire is a
 * request number, its answer a lease that names that number, a release a lease with a watermark.
 *
 * Switches, each of which breaks a rule (numbers as in the design): NO_OVERLAP_RULE, NO_FLOOR_PER_SLOT, NO_DURABILITY
 * (P1), NO_HALF_OPEN (P2), NO_TIME_FORWARD, NO_DURABLE_TIME (P3), NO_WATERMARK, NO_SECRET (P4), NO_REQUEST_MATCH (P5),
 * NO_ONLY_INSIDE, NO_ONLY_UPWARD (C1), NO_RELEASE_ORDER, NO_RELEASE_STEP, NO_LAST_FIRST, NO_GIVING_UP (C5),
 * NO_NEVER_RETURN (C6), NO_FORK_RULE, NO_FORK_REQUEST_RULE (C7). */

#define CLIENTS 2 /* no more: a client's child is the other one */
#ifndef SLOTS
#define SLOTS 1 /* 1 or 2 */
#endif
#ifndef LEASES
#define LEASES 2 /* grants in all: 2 to 4 */
#endif
#ifndef REQUESTS
#define REQUESTS 3 /* in all */
#endif
#ifndef LENGTH
#define LENGTH 2
#endif
#ifndef NOW_MAX
#define NOW_MAX 2 /* the source's clock stops here */
#endif

#define TIMES (NOW_MAX + LENGTH + 1)
#define POINTS (TIMES * SLOTS)

/* IDs in order: 0 is none, then the slots of time 0, and so on. One more than the points, for the step of a release. */
#define ID(time, slot) ((time) * SLOTS + (slot) + 1)
#define TIME_OF(id) ((id) == 0 -> 0 : ((id) - 1) / SLOTS)
#define SLOT_OF(id) (((id) - 1) % SLOTS)

#define HAS(mask, n) (((mask) >> (n)) & 1)
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define CLAMP(x, low, high) MAX(low, MIN(x, high))

/* The table. A slot that is out has a floor above the highest time answered; any other may be forgotten. */
byte high;
byte floor[SLOTS];
byte row[SLOTS]; /* 1 + the lease that a release can name */

/* Leases ever granted, and so the answers that are under way. */
byte leases;
byte lease_start[LEASES], lease_slots[LEASES], lease_request[LEASES];

/* Requests ever sent: 1 to `requests`. Releases ever sent: 1 + the watermark. */
byte requests;
byte sent_release[LEASES];

/* Clients. What a crash takes away is all there is. */
byte holds[CLIENTS]; /* a set of leases */
byte last[CLIENTS];
byte asked[CLIENTS]; /* the request in flight, or 0 */
/* The minter, another thread than the keeper: 1: it has read `last`; 2: it has chosen a point. */
byte phase[CLIENTS], seen[CLIENTS], chosen[CLIENTS];
/* The keeper gives lease `giving` - 1 back; its next step. */
byte giving[CLIENTS], giving_step[CLIENTS], mark[CLIENTS];

/* What is checked. */
bool minted[POINTS + 1];

inline raise(x, to)
{
    do
    :: x < to -> x++
    :: break
    od
}

inline pick(x, from, to)
{
    x = from;
    raise(x, to)
}

/* ------------------------------------------------------------------------------------------------- the source */

#ifdef NO_TIME_FORWARD
#define NOW wall
#else
#define NOW MAX(wall, high)
#endif

/* `now`, and the rows that are over return to free space. Free space has no floor. */
inline read_time()
{
    d_step {
        now = NOW;
        wall = 0;
        high = now;
        s = 0;
        do
        :: s < SLOTS ->
            if
            :: floor[s] <= now -> floor[s] = 0; row[s] = 0
            :: else
            fi;
            s++
        :: else -> break
        od;
        s = 0
    }
}

/* Asking twice is asking once. */
#define ROW_OF(request, s) (row[s] > 0 && lease_request[row[s] - 1] == request)
#if SLOTS == 1
#define IS_OUT(request) ROW_OF(request, 0)
#define IS_FREE(block) (floor[0] == 0)
#else
#define IS_OUT(request) (ROW_OF(request, 0) || ROW_OF(request, 1))
#ifdef NO_FLOOR_PER_SLOT /* the floor of the node alone: of the block's first slot */
#define IS_FREE(block) (floor[1 - HAS(block, 0)] == 0)
#else
#define IS_FREE(block) ((!HAS(block, 0) || floor[0] == 0) && (!HAS(block, 1) || floor[1] == 0))
#endif
#endif
#ifdef NO_OVERLAP_RULE
#undef IS_FREE
#define IS_FREE(block) true
#endif

inline grant()
{
    d_step {
        lease_start[leases] = now;
        lease_slots[leases] = block;
        lease_request[leases] = r;
        leases++;
        do
        :: s < SLOTS ->
            if
            :: HAS(block, s) -> floor[s] = now + LENGTH; row[s] = leases
            :: else
            fi;
            s++
        :: else -> break
        od;
        s = 0
    }
}

#ifdef NO_WATERMARK
#define WATERMARK high
#else
#define WATERMARK (sent_release[l] - 1)
#endif
#ifdef NO_SECRET
#define NAMES(s) (row[s] > 0 && HAS(lease_slots[l], s))
#else
#define NAMES(s) (row[s] == l + 1)
#endif

inline end_lease()
{
    d_step {
        do
        :: s < SLOTS ->
            if
            :: NAMES(s) -> floor[s] = CLAMP(WATERMARK + 1, lease_start[row[s] - 1], floor[s]); row[s] = 0
            :: else
            fi;
            s++
        :: else -> break
        od;
        s = 0
    }
}

proctype source()
{
    byte r, l, s, wall, now, block;

    do
    :: atomic { /* an acquire arrives */
        requests > 0 ->
        pick(r, 1, requests);
        pick(wall, 0, NOW_MAX);
        read_time();
        pick(block, 1, (1 << SLOTS) - 1);
        if
        :: !IS_OUT(r) && leases < LEASES && IS_FREE(block) -> grant()
        :: true /* refused, for any reason: the time was answered all the same */
        fi;
        r = 0;
        now = 0;
        block = 0
    }
    :: atomic { /* a release arrives */
        leases > 0 ->
        pick(l, 0, leases - 1);
        if
        :: sent_release[l] > 0 -> end_lease()
        :: else
        fi;
        l = 0
    }
    /* A restart changes nothing: the table is durable before an answer leaves, and the clock may be any time anyway. */
#ifdef NO_DURABILITY
    :: d_step {
        high = 0;
        floor[0] = 0;
        row[0] = 0
    }
#endif
#ifdef NO_DURABLE_TIME
    :: high = 0
#endif
    od
}

/* ------------------------------------------------------------------------------------------------- a client */

#ifdef NO_ONLY_INSIDE
#define COVERS(l, time) true
#elif defined(NO_HALF_OPEN)
#define COVERS(l, time) ((time) >= lease_start[l] && (time) <= lease_start[l] + LENGTH)
#else
#define COVERS(l, time) ((time) >= lease_start[l] && (time) < lease_start[l] + LENGTH)
#endif
#define BY(l, id) (HAS(holds[me], l) && HAS(lease_slots[l], SLOT_OF(id)) && COVERS(l, TIME_OF(id)))
#if LEASES == 2
#define HELD(id) (BY(0, id) || BY(1, id))
#elif LEASES == 3
#define HELD(id) (BY(0, id) || BY(1, id) || BY(2, id))
#else
#define HELD(id) (BY(0, id) || BY(1, id) || BY(2, id) || BY(3, id))
#endif

#ifdef NO_ONLY_UPWARD
#define IS_ABOVE(id, than) true
#else
#define IS_ABOVE(id, than) ((id) > (than))
#endif

#ifdef NO_REQUEST_MATCH
#define IS_ANSWER(l) true
#else
#define IS_ANSWER(l) (lease_request[l] == asked[me])
#endif

/* The process ends. Nothing about it is kept. */
inline forget(who)
{
    last[who] = 0;
    asked[who] = 0;
    phase[who] = 0;
    seen[who] = 0;
    chosen[who] = 0;
    giving[who] = 0;
    giving_step[who] = 0;
    mark[who] = 0;
    holds[who] = 0
}

inline choose()
{
    pick(id, 1, POINTS);
    if
#ifdef NO_LAST_FIRST
    :: HELD(id) -> chosen[me] = id; phase[me] = 2
#else
    :: HELD(id) && IS_ABOVE(id, seen[me]) -> chosen[me] = id; phase[me] = 2
#endif
    :: else
    fi;
    id = 0
}

inline mint()
{
    d_step {
        if
        :: last[me] == seen[me] -> /* nobody has moved the word: it is ours */
            assert(!minted[chosen[me]]);
            assert(chosen[me] > last[me]);
            minted[chosen[me]] = true;
            last[me] = chosen[me]
        :: else
        fi;
        phase[me] = 0;
        seen[me] = 0;
        chosen[me] = 0
    }
}

/* The steps of a release, in order. */
#ifdef NO_RELEASE_ORDER
#define REMOVE 3
#define STEP 1
#define SEND 2
#else
#define REMOVE 1
#define STEP 2
#define SEND 3
#endif

inline advance()
{
    giving_step[me]++;
    if
    :: giving_step[me] > 3 -> giving[me] = 0; giving_step[me] = 0; mark[me] = 0
    :: else
    fi
}

proctype client(byte me)
{
    byte l, id;

    do
    /* The keeper asks for a lease (also while it holds one: the handover), and may get it much later. */
    :: d_step { asked[me] == 0 && requests < REQUESTS -> requests++; asked[me] = requests }
    :: atomic {
        asked[me] > 0 && leases > 0 ->
        pick(l, 0, leases - 1);
        if
        :: IS_ANSWER(l) -> holds[me] = holds[me] | (1 << l); asked[me] = 0
        :: else
        fi;
        l = 0
    }

    /* The minter reads `last`, then looks at holdings and clock, then takes the point if `last` has not moved. */
#ifdef NO_LAST_FIRST
    :: atomic { phase[me] == 0 && holds[me] > 0 -> choose() }
    :: d_step { phase[me] == 2 -> seen[me] = last[me]; phase[me] = (chosen[me] > last[me] -> 3 : 0) }
    :: atomic { phase[me] == 3 -> mint() }
#else
    :: d_step { phase[me] == 0 && holds[me] > 0 -> seen[me] = last[me]; phase[me] = 1 }
    :: atomic { phase[me] == 1 -> choose() }
    :: atomic { phase[me] == 2 -> mint() }
#endif

    /* The keeper gives a lease back. */
    :: atomic {
        giving[me] == 0 && holds[me] > 0 ->
        pick(l, 0, leases - 1);
        if
        :: HAS(holds[me], l) && sent_release[l] == 0 -> giving[me] = l + 1; giving_step[me] = 1
        :: else
        fi;
        l = 0
    }
    :: d_step { giving_step[me] == REMOVE -> holds[me] = holds[me] & ~(1 << (giving[me] - 1)); advance() }
    :: d_step {
        giving_step[me] == STEP ->
        mark[me] = TIME_OF(last[me]);
#ifndef NO_RELEASE_STEP
        last[me]++;
#endif
        advance()
    }
    :: atomic {
        giving_step[me] == SEND ->
        l = giving[me] - 1;
        id = MIN(mark[me], lease_start[l] + LENGTH - 1);
        raise(id, lease_start[l] + LENGTH - 1); /* that, or later */
        sent_release[l] = id + 1;
#ifdef NO_GIVING_UP /* no answer came: it is not given back, then */
        holds[me] = holds[me] | (1 << l);
#endif
        id = 0;
        l = 0;
        advance()
    }

    /* It crashes, and starts afresh whenever it takes its next step. */
    :: d_step {
#ifdef NO_NEVER_RETURN
        l = holds[me];
        forget(me);
        holds[me] = l;
        l = 0
#else
        forget(me)
#endif
    }
    /* It forks, and the child is the other one, whatever became of it. */
    :: d_step {
        forget(1 - me);
#ifdef NO_FORK_RULE
        holds[1 - me] = holds[me];
        last[1 - me] = last[me];
#endif
#ifdef NO_FORK_REQUEST_RULE
        asked[1 - me] = asked[me];
#endif
    }
    od
}

init
{
    atomic {
        run source();
        run client(0);
        run client(1)
    }
}
