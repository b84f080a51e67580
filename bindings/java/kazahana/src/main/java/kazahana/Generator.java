package kazahana;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.concurrent.locks.LockSupport;
import kazahana.KazahanaException.Status;

/**
 * Mints unique 64-bit IDs that sort by time. Any number of threads may use one, virtual ones too: nothing sleeps inside
 * C.
 *
 * <pre>{@code
 * try (Generator ids = Generator.open("http://leases:7070")) {
 *     long id = ids.next();
 * }
 * }</pre>
 *
 * <p>IDs are unsigned: {@link Long#toUnsignedString(long)} prints layouts of 64 bits, such as TSIDs, rightly. Generators
 * with the same URL and options share one native generator in a process.
 */
public final class Generator implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final long LEASE_RETRY_MICROS = 20_000;
    private static final long NAP_MAX_MICROS = 100_000;

    private final long slot;
    private final long timeoutNanos;

    private Generator(Builder b) {
        slot = open(b);
        timeoutNanos = b.timeoutMs < 0 ? -1 : b.timeoutMs * 1_000_000;
        long address = slot;
        // A net for those who forget close. It gives back what is held, so it must not run on the cleaner's thread.
        CLEANER.register(this, () -> {
            Thread last = new Thread(() -> Native.free(address), "kazahana-close");
            last.setDaemon(true);
            last.start();
        });
    }

    private static long open(Builder b) {
        try {
            return Native.open(b.url, b.options.toArray(new String[0]));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** A generator on the source that the URL names; null is the embedded default. Waits for the first lease. */
    public static Generator open(String url) {
        return builder(url).build();
    }

    /** The same with options. */
    public static Builder builder(String url) {
        return new Builder(url);
    }

    /** An ID above all that this generator gave before. Waits when it has to, for the timeout at the most. */
    public long next() {
        long id = Native.tryNext(slot);
        if (id == 0) {
            long[] one = new long[1];
            fill(one);
            id = one[0];
        }
        Reference.reachabilityFence(this);
        return id;
    }

    /** The same without waiting: empty where next would wait. */
    public OptionalLong tryNext() {
        long[] one = {Native.tryNext(slot)};
        if (one[0] == 0) {
            KazahanaException[] why = new KazahanaException[1];
            if (Native.mint(slot, one, 0, 1, why) == 0 && why[0].status() != Status.AGAIN) {
                throw why[0].traced();
            }
        }
        Reference.reachabilityFence(this);
        return one[0] == 0 ? OptionalLong.empty() : OptionalLong.of(one[0]);
    }

    /** As many IDs, in increasing order. */
    public long[] next(int count) {
        long[] ids = new long[count];
        fill(ids);
        return ids;
    }

    /**
     * Fills the array with IDs in increasing order. On an exception none of them may be used. Between two tries this
     * thread parks; a virtual one gives up its carrier then.
     */
    public void fill(long[] ids) {
        KazahanaException[] why = new KazahanaException[1];
        long began = 0;
        for (int at = 0; at < ids.length;) {
            int got = Native.mint(slot, ids, at, ids.length - at, why);
            at += got;
            if (got == 0) {
                long now = System.nanoTime();
                began = began == 0 ? now : began;
                await(why[0], now - began);
            }
        }
        Reference.reachabilityFence(this);
    }

    /** Waits until it is worth asking again, or throws. */
    private void await(KazahanaException why, long waitedNanos) {
        boolean again = why.status() == Status.AGAIN;
        if (!again && why.status() != Status.LEASE_ACQUISITION) {
            throw why.traced();
        }
        long nanos = 1000 * Math.min(NAP_MAX_MICROS, why.retryMicros() > 0 ? why.retryMicros() : LEASE_RETRY_MICROS);
        if (timeoutNanos >= 0 && waitedNanos + nanos > timeoutNanos) {
            throw again ? failed("no ID within " + Duration.ofNanos(timeoutNanos).toMillis() + " ms: "
                    + why.getMessage()) : why.traced();
        }
        LockSupport.parkNanos(nanos);
        if (Thread.currentThread().isInterrupted()) {
            throw failed("this thread was interrupted while it waited for an ID");
        }
    }

    private static KazahanaException failed(String message) {
        return new KazahanaException(Status.TIMEOUT, message).traced();
    }

    /** The layout of the IDs it mints. */
    public Layout layout() {
        try {
            return Layout.parse(Native.layoutOf(slot));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** What it did and where it stands. */
    public Stats stats() {
        try {
            return new Stats(Native.stats(slot));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /**
     * Gives back what it holds. Calls under way end first, later ones fail. It may take as long as an exchange with the
     * source. A second close does nothing.
     */
    @Override
    public void close() {
        Native.close(slot);
        Reference.reachabilityFence(this);
    }

    /** What a generator did and where it stands. */
    public static final class Stats {
        private final long[] values;

        private Stats(long[] values) {
            this.values = values;
        }

        /** IDs from a lease or a fixed node. */
        public long leased() {
            return values[0];
        }

        /** Fallback IDs from the window granted with a lease: as safe as leased ones. */
        public long fenced() {
            return values[1];
        }

        /** Fallback IDs that promise nothing. */
        public long unfenced() {
            return values[2];
        }

        /** Milliseconds whose slots were used up while more were wanted. */
        public long sequenceExhausted() {
            return values[3];
        }

        /** Steps of the clock backwards. */
        public long clockBackward() {
            return values[4];
        }

        /** The largest of them, in milliseconds. */
        public long clockBackwardMaxMs() {
            return values[5];
        }

        /** How far the last ID is ahead of the clock, in milliseconds. */
        public long aheadMs() {
            return values[6];
        }

        /** Leases held now. */
        public long leases() {
            return values[7];
        }

        /** How many IDs a millisecond they allow. */
        public long throughputPerMs() {
            return values[8];
        }

        /** Leases got in all. */
        public long leasesAcquired() {
            return values[9];
        }

        /** Leases given back. */
        public long leasesReleased() {
            return values[10];
        }

        /** Attempts to get a lease that failed. */
        public long acquireFailures() {
            return values[11];
        }

        /** The age of the oldest lease in use, in milliseconds. */
        public long leaseAgeMs() {
            return values[12];
        }

        /** The last ID that may have been given; 0 before the first. */
        public long last() {
            return values[13];
        }

        /** Until when IDs can be minted from what is held, in Unix milliseconds. */
        public long windowEndUnixMs() {
            return values[14];
        }

        /** Whether IDs minted now promise nothing. */
        public boolean unfencedNow() {
            return values[15] != 0;
        }
    }

    /** Options of a generator; the defaults are those of kazahana.h. */
    public static final class Builder {
        private final String url;
        private final List<String> options = new ArrayList<>();
        private long timeoutMs = 10_000;

        private Builder(String url) {
            this.url = url;
        }

        /** Any option by the name and in the words that the command line uses: {@code with("backward", "fail")}. */
        public Builder with(String name, String text) {
            options.add(Objects.requireNonNull(name));
            options.add(Objects.requireNonNull(text));
            return this;
        }

        /** The ID space of a lease table. */
        public Builder service(String name) {
            return with("service", name);
        }

        /** A preset's name, or TIME-NODE-SEQ@EPOCH. */
        public Builder layout(String layout) {
            return with("layout", layout);
        }

        /** never, fenced or any. */
        public Builder fallback(String kind) {
            return with("fallback", kind);
        }

        /** fail, wait:MS or logical. */
        public Builder backward(String policy) {
            return with("backward", policy);
        }

        /** How many IDs a millisecond to ask leases for, at first and at most. */
        public Builder throughput(int min, int max) {
            return with("throughput", min + ":" + max);
        }

        /** How long opening, and each wait for an ID, may take; negative for no limit. */
        public Builder timeout(Duration timeout) {
            timeoutMs = timeout.isNegative() ? -1 : timeout.toMillis();
            return with("timeout", timeoutMs < 0 ? "forever" : timeoutMs + "ms");
        }

        /** Opens it. */
        public Generator build() {
            return new Generator(this);
        }
    }
}
