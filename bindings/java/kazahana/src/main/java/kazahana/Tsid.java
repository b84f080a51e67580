package kazahana;

import java.io.Serializable;
import java.time.Instant;

/** A TSID: 42 bits of milliseconds since 2020, 10 of node, 12 of sequence. Compared as an unsigned number. */
public final class Tsid implements Comparable<Tsid>, Serializable {
    private static final long serialVersionUID = 1;
    private static final long EPOCH_MS = 1577836800000L;

    private final long number;

    private Tsid(long number) {
        this.number = number;
    }

    /** The TSID of a number. */
    public static Tsid from(long number) {
        return new Tsid(number);
    }

    /** Reads 13 characters of Crockford's base 32, in either case. */
    public static Tsid from(String text) {
        return new Tsid(Ids.parse(text, Ids.Form.BASE32));
    }

    /** Whether from would read it. */
    public static boolean isValid(String text) {
        try {
            Native.parse(java.util.Objects.requireNonNull(text), Ids.Form.BASE32.ordinal());
            return true;
        } catch (KazahanaException e) {
            return false;
        }
    }

    /** The number, as a BIGINT column holds it. */
    public long toLong() {
        return number;
    }

    /** 8 bytes, the highest first. */
    public byte[] toBytes() {
        return java.nio.ByteBuffer.allocate(Long.BYTES).putLong(number).array();
    }

    /** 13 characters in upper case. */
    @Override
    public String toString() {
        return Ids.format(number, Ids.Form.BASE32);
    }

    /** 13 characters in lower case. */
    public String toLowerCase() {
        return toString().toLowerCase(java.util.Locale.ROOT);
    }

    /** When it was made, if its epoch is the usual one. */
    public Instant getInstant() {
        return Instant.ofEpochMilli(getUnixMilliseconds());
    }

    /** When it was made, in Unix milliseconds, if its epoch is the usual one. */
    public long getUnixMilliseconds() {
        return (number >>> 22) + EPOCH_MS;
    }

    @Override
    public int compareTo(Tsid other) {
        return Long.compareUnsigned(number, other.number);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Tsid that && that.number == number;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(number);
    }
}
