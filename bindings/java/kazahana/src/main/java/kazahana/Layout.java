package kazahana;

import java.time.Instant;

/** How an ID's bits are divided. */
public final class Layout {
    private final String text;

    private Layout(String text) {
        this.text = text;
    }

    /** Reads a preset's name, or TIME-NODE-SEQ@EPOCH such as 41-14-8@2026-01-01. */
    public static Layout parse(String text) {
        try {
            return new Layout(Native.layout(text));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** What an ID contains. */
    public record Parts(Instant time, long node, long sequence, boolean fallback) {}

    /** Takes an ID apart. */
    public Parts decode(long id) {
        try {
            long[] parts = Native.decode(text, id);
            return new Parts(Instant.ofEpochMilli(parts[0]), parts[1], parts[2], parts[3] != 0);
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** The smallest ID of a time's millisecond. A span is minId(since) up to, not including, minId(until). */
    public long minId(Instant time) {
        return edge(time, false);
    }

    /** The largest ID of a time's millisecond. */
    public long maxId(Instant time) {
        return edge(time, true);
    }

    private long edge(Instant time, boolean max) {
        try {
            return Native.edge(text, time.toEpochMilli(), max);
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** TIME-NODE-SEQ@EPOCH. */
    @Override
    public String toString() {
        return text;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Layout that && that.text.equals(text);
    }

    @Override
    public int hashCode() {
        return text.hashCode();
    }
}
