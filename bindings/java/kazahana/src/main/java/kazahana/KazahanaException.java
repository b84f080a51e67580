package kazahana;

/** What went wrong, as the library tells it: the message names the value at fault and the way out. */
public final class KazahanaException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /** What kind of failure it is; the numbers are those of kazahana.h. */
    public enum Status {
        OK, AGAIN, TIMEOUT, INVALID, UNSUPPORTED, CLOCK_BACKWARD, BEFORE_EPOCH, OVERFLOW, FORKED, IN_USE, STATE,
        LEASE_ACQUISITION, NO_PROVIDER, UNKNOWN_KEY, NO_MEMORY, SYSTEM, UNAVAILABLE, NO_FREE_NODE, NOT_FOUND, FORBIDDEN,
        CONFLICT, MISMATCH, STORE, LOST,
        /** A failure that this version does not know. */
        UNKNOWN;

        static Status of(int number) {
            return number >= 0 && number < UNKNOWN.ordinal() ? values()[number] : UNKNOWN;
        }
    }

    private final Status status;
    private final Status reason;
    private final long backwardMs;
    private final long limitMs;
    private final long retryMicros;

    /** Called by the native side. */
    KazahanaException(int status, int reason, long backwardMs, long limitMs, long retryMicros, String message) {
        // "Ask again" is met in every full millisecond and caught at once: it needs no stack trace.
        super(message);
        this.status = Status.of(status);
        this.reason = Status.of(reason);
        this.backwardMs = backwardMs;
        this.limitMs = limitMs;
        this.retryMicros = retryMicros;
    }

    KazahanaException(Status status, String message) {
        this(status.ordinal(), 0, 0, 0, 0, message);
    }

    @Override
    public Throwable fillInStackTrace() {
        return this;
    }

    /** The same with the caller's stack trace, to be thrown. */
    KazahanaException traced() {
        super.fillInStackTrace();
        return this;
    }

    /** The kind of failure. */
    public Status status() {
        return status;
    }

    /** For LEASE_ACQUISITION: why the last attempt to get a lease failed; else OK. */
    public Status reason() {
        return reason;
    }

    /** For CLOCK_BACKWARD: how far the clock is behind the last ID, in milliseconds. */
    public long backwardMs() {
        return backwardMs;
    }

    /** For CLOCK_BACKWARD: what would have been waited for, in milliseconds; negative for no limit. */
    public long limitMs() {
        return limitMs;
    }

    /** For AGAIN: after how many microseconds it is worth asking again. */
    public long retryMicros() {
        return retryMicros;
    }
}
