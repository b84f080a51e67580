package kazahana;

/** IDs as texts. */
public final class Ids {
    private Ids() {}

    /** A way to write an ID. */
    public enum Form {
        DECIMAL,
        /** 16 digits. */
        HEX,
        /** 13 characters, Crockford, as TSIDs are written. */
        BASE32,
        /** 11 characters that sort like the number. */
        BASE62,
        /** 11 characters. */
        BASE64URL
    }

    /** Writes an ID. */
    public static String format(long id, Form form) {
        return Native.text(id, form.ordinal());
    }

    /** Reads a text whole; the exception names the character or the length at fault. */
    public static long parse(String text, Form form) {
        try {
            return Native.parse(text, form.ordinal());
        } catch (KazahanaException e) {
            throw e.traced();
        }
    }
}
