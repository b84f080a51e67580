package kazahana;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * External IDs: 11 characters that hide order and time, and can be turned back. With a type in front, such as
 * {@code user_}, the type is part of the key.
 */
public final class ExternalIds {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final ExternalIds MIXER = new ExternalIds(0);

    private final long keys;

    private ExternalIds(long keys) {
        this.keys = keys;
        if (keys != 0) {
            CLEANER.register(this, () -> Native.freeKeys(keys));
        }
    }

    /** Without keys: a public mixer, which hides nothing from somebody who knows it. */
    public static ExternalIds withoutKeys() {
        return MIXER;
    }

    /** Lines {@code N xtea|speck HEXSECRET}: the first key encodes, all decode. */
    public static ExternalIds withKeys(String lines) {
        try {
            return new ExternalIds(Native.keys(lines.getBytes(StandardCharsets.UTF_8)));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** The same from a file. */
    public static ExternalIds withKeyFile(Path path) throws IOException {
        try {
            return new ExternalIds(Native.keys(Files.readAllBytes(path)));
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }

    /** The external form of an ID. */
    public String toExternalId(long id) {
        return external(null, id);
    }

    /** The external form with a type in front: 1 to 16 of a-z0-9, beginning with a letter. */
    public String toExternalId(String type, long id) {
        return external(java.util.Objects.requireNonNull(type), id);
    }

    /** Turns an external form back. */
    public long toInternalId(String text) {
        return internal(null, text);
    }

    /** Turns one with a type back; another type, or none, is refused. */
    public long toInternalId(String type, String text) {
        return internal(java.util.Objects.requireNonNull(type), text);
    }

    private String external(String type, long id) {
        try {
            return Native.external(keys, type, id);
        } catch (KazahanaException e) {
            throw e.traced();
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private long internal(String type, String text) {
        try {
            return Native.internal(keys, type, java.util.Objects.requireNonNull(text));
        } catch (KazahanaException e) {
            throw e.traced();
        } finally {
            Reference.reachabilityFence(this);
        }
    }
}
