/* The step between threads of one generator, as in lib/mint.c: next, hi, deadline, owner and the holdings.
 *
 * Every line that begins a statement is one atomic step on shared memory, in the order of the C code; the interleaving
 * of those steps is arbitrary, and so is every pause between them. What only the holder of the lock reads and writes
 * (run, floor, held) needs no steps of its own.
 *
 * Points are numbered ms * WIDTH + slot. Rectangle A is slots [0, 3), B is slot 4; slot 3 is nobody's, as is all that
 * lies past LAST_MS. The clock shows any time at any look. The keeper adds B and gives A back, in either order.
 *
 * A thread may become the owner again at any look, where the C code waits until it seems to be alone. With SHARED the
 * quick readers are somebody else's (kz_share): they do not look at the owner.
 *
 * Switches, each of which breaks the protocol: NO_FREEZE, NO_FREEZE_ON_RELEASE, HI_BEFORE_NEXT, IGNORE_HI, NO_REVOKE,
 * LATE_REVOKE, OWNER_STORES, HI_FALLS, EARLY_WATERMARK, NO_SECOND_LOOK, ONE_PLACE, OWNED_AND_SHARED. */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 4 /* of all threads together */
#endif
#ifndef LAST_MS
#define LAST_MS 1
#endif

#define OWN_CLAIM 2
#define WIDTH 5
#define A_END 3
#define B_SLOT 4
#define POINTS ((LAST_MS + 2) * WIDTH)

#define NOBODY 0
#define EVERYBODY 1
#define SELF (2 + me)
#ifdef ONE_PLACE
#define MINE 0
#else
#define MINE me
#endif

#define MS(point) ((point) / WIDTH)
#define SLOT(point) ((point) % WIDTH)
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define IS_HELD(point) \
    ((held_a && SLOT(point) < a_end || held_b && SLOT(point) == B_SLOT) && MS(point) <= LAST_MS)

#ifdef HI_FALLS
byte a_end = A_END;
#else
#define a_end A_END
#endif

/* Shared words. The deadline is armed or not: whether it has passed, the reader finds out by itself. */
bool deadline;
byte next, hi, owner;
#if !defined(SHARED) && !defined(NO_REVOKE) && !defined(LATE_REVOKE) || defined(OWNED_AND_SHARED)
#define MAY_REGAIN
#endif

/* Under the lock. */
bool locked;
bool held_a = true, held_b;
bool live;
byte run_end, floor;

/* The owners': each thread touches its own. */
byte own_next[THREADS], own_end[THREADS];

/* What is checked. */
byte calls;
bool given[POINTS], published[POINTS];
byte highest;     /* 1 + the highest point of a call that has ended */
bool released;    /* the release of A is on its way ... */
byte watermark;   /* ... and says that no point of A at or above this was given */

#define LOCK atomic { !locked -> locked = true }
#define UNLOCK locked = false

/* kz__freeze */
inline freeze(by_minter)
{
    if
    :: live ->
        deadline = false;
        d_step {
            floor = MIN(next, run_end);
#ifdef NO_FREEZE
            next = (by_minter -> next : run_end)
#else
            next = run_end
#endif
        };
        live = false
    :: else
    fi
}

/* A claim of `count` points below `end`: the first into `point`, how many into `got`. */
inline claim(count, end)
{
    atomic {
        point = next;
        next = next + count;
#ifdef IGNORE_HI
        got = count
#else
        got = (point >= end -> 0 : MIN(end - point, count))
#endif
    };
    if
    :: got == 0 -> point = 0; deadline = false
    :: else
    fi
}

/* take_own, as the owner */
inline take_own()
{
    if
    :: own_next[MINE] == own_end[MINE] ->
        seen_hi = hi;
#ifdef OWNER_STORES
        d_step { point = next; got = (point >= seen_hi -> 0 : MIN(seen_hi - point, OWN_CLAIM)) };
        next = point + OWN_CLAIM;
#else
        claim(OWN_CLAIM, seen_hi);
#endif
        seen_hi = 0;
        if
        :: got > 0 -> d_step { own_next[MINE] = point + 1; own_end[MINE] = point + got; got = 1 }
        :: else
        fi
    :: else ->
        point = own_next[MINE];
        d_step { own_next[MINE] = point + 1; got = 1 }
    fi
}

/* Sets `point` to the smallest point held at or above it, or to POINTS, and `end` to the end of its block. */
inline successor()
{
    d_step {
        do
        :: point < POINTS && !IS_HELD(point) -> point++
        :: else -> break
        od;
        end = point - SLOT(point) + (SLOT(point) < A_END -> a_end : B_SLOT + 1)
    }
}

/* Publishes the run [point, end) and takes its first point. */
inline publish()
{
    d_step {
        got = MIN((own -> OWN_CLAIM : 1), end - point);
        seen_hi = point;
        do
        :: seen_hi < end -> published[seen_hi] = true; seen_hi++
        :: else -> break
        od;
        seen_hi = 0;
        live = true;
        run_end = end
    };
#ifdef HI_BEFORE_NEXT
    hi = end;
    next = point + got;
#else
    next = point + got;
    hi = end;
#endif
    deadline = true;
    d_step {
        if
        :: own -> own_next[MINE] = point + 1; own_end[MINE] = point + got
        :: else
        fi;
        got = 1;
        end = 0
    }
}

/* look: one look under the lock. got == 0: it would sleep or fail. */
inline look()
{
    if
#ifndef SHARED
    :: owner == NOBODY -> d_step { own_next[MINE] = 0; own_end[MINE] = 0; owner = SELF }
#endif
#ifdef MAY_REGAIN
    :: owner == EVERYBODY -> d_step { own_next[MINE] = 0; own_end[MINE] = 0; owner = SELF }
#endif
    :: owner != NOBODY && owner != SELF && owner != EVERYBODY ->
#if !defined(NO_REVOKE) && !defined(LATE_REVOKE)
        owner = EVERYBODY
#else
        skip
#endif
    :: else
    fi;
    own = (owner == SELF);
    if
    :: live -> /* go_on: the clock still shows the run's millisecond */
        if
        :: own && own_next[MINE] != own_end[MINE] -> take_own()
        :: else -> claim(1, run_end)
        fi;
        if
        :: got > 0 -> deadline = true
        :: else
        fi
    :: true /* it does not, or there is no run */
    fi;
    if
    :: got == 0 ->
        freeze(true);
        d_step {
            if
            :: own -> own_next[MINE] = 0; own_end[MINE] = 0
            :: else
            fi;
            point = floor
        };
        atomic {
            if /* the clock: any later millisecond, or none later */
            :: true
            :: MS(point) < 1 && LAST_MS >= 1 -> point = WIDTH
            :: MS(point) < 2 && LAST_MS >= 2 -> point = 2 * WIDTH
            fi;
            successor()
        };
        if
        :: point < POINTS -> publish()
        :: else -> d_step { point = 0; end = 0 }
        fi
    :: else
    fi;
#ifdef LATE_REVOKE
    UNLOCK;
    atomic {
        if
        :: !own && owner != EVERYBODY -> late = true
        :: else
        fi
    }
#else
    own = false
#endif
}

inline end_call()
{
    d_step {
        assert(published[point]);                                      /* inside what was held */
        assert(!given[point]);                                         /* each point once */
        assert(point >= least);                                        /* above every call that had ended before */
        assert(!released || SLOT(point) >= A_END || point < watermark); /* no later than a release says */
        given[point] = true;
        highest = MAX(highest, point + 1);
        point = 0;
        got = 0;
        least = 0
    }
}

proctype thread(byte me)
{
    byte least, point, got, seen_hi, end;
    bool own;
#ifdef LATE_REVOKE
    bool late;
#endif

    do
    :: atomic { calls < CALLS -> calls++; least = highest };
        if
        :: deadline -> /* and it has not passed */
#ifdef SHARED
            seen_hi = hi;
            claim(1, seen_hi);
            seen_hi = 0
#else
            if
            :: owner == SELF -> take_own()
            :: owner == EVERYBODY ->
                seen_hi = hi;
                claim(1, seen_hi);
                seen_hi = 0;
#ifndef NO_SECOND_LOOK
                if
                :: owner != EVERYBODY -> point = 0; got = 0
                :: else
                fi
#endif
            :: owner != SELF && owner != EVERYBODY
            fi
#endif
        :: true /* the deadline has passed, or there is none */
        fi;
        if
        :: got == 0 ->
            LOCK;
            look();
#ifndef LATE_REVOKE
            UNLOCK
#endif
        :: else
        fi;
        if
        :: got > 0 -> end_call()
        :: else -> least = 0 /* failed: nothing was given */
        fi;
#ifdef LATE_REVOKE
        if
        :: late -> atomic { owner = EVERYBODY; late = false }
        :: else
        fi;
        own = false
#endif
    :: calls == CALLS -> break
    od
}

/* C5: take the rectangle away, make every claim on it void, read the watermark, send. */
inline give_back()
{
    byte mark;
    LOCK;
    held_a = false;
#ifdef EARLY_WATERMARK
    mark = (live -> MIN(next, run_end) : floor);
#endif
#ifndef NO_FREEZE_ON_RELEASE
    freeze(false);
#endif
#ifndef EARLY_WATERMARK
    mark = (live -> MIN(next, run_end) : floor);
#endif
    UNLOCK;
    d_step {
        byte i;
        released = true;
        watermark = mark;
        mark = 0;
        i = 0;
        do
        :: i < POINTS -> assert(!given[i] || SLOT(i) >= A_END || i < watermark); i++
        :: else -> break
        od;
        i = 0
    }
}

inline add_b()
{
    LOCK;
    freeze(false);
    held_b = true;
    UNLOCK
}

#ifdef HI_FALLS /* A is replaced by a shorter block in the same millisecond, and comes back */
inline resize_a(to)
{
    LOCK;
    freeze(false);
    a_end = to;
    UNLOCK
}
#endif

proctype keeper()
{
#ifdef HI_FALLS
    resize_a(A_END - 1);
    resize_a(A_END)
#else
    if
    :: add_b(); give_back()
    :: give_back(); add_b()
    fi
#endif
}

init
{
    atomic {
        byte i;
#ifdef SHARED
        owner = EVERYBODY;
#endif
        for (i : 0 .. THREADS - 1) {
            run thread(i)
        }
        i = 0;
        run keeper()
    }
}
