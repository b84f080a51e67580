package kazahana;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * The calls into C. The library lies in the jar, once with all sources, which needs the system's libsqlite3, libcurl and
 * libjansson, and once with those that need nothing but libc.
 */
final class Native {
    private Native() {}

    static {
        load();
    }

    private static void load() {
        String given = System.getProperty("kazahana.library");
        if (given != null) {
            System.load(given);
            return;
        }
        String machine = System.getProperty("os.arch").equals("aarch64") ? "linux-aarch64" : "linux-x86_64";
        UnsatisfiedLinkError first = null;
        for (String name : new String[] {"kazahana", "kazahana_small"}) {
            try {
                loadFromJar("/kazahana/native/" + machine + "/lib" + name + ".so");
                return;
            } catch (UnsatisfiedLinkError e) {
                first = first == null ? e : first;
            }
        }
        throw first;
    }

    private static void loadFromJar(String path) {
        try (InputStream in = Native.class.getResourceAsStream(path)) {
            if (in == null) {
                throw new UnsatisfiedLinkError("this jar has no " + path + ": it was built for other machines. "
                        + "-Dkazahana.library=/path/libkazahana.so names a library built elsewhere");
            }
            Path file = Files.createTempFile("kazahana", ".so",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            try {
                Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                Files.delete(file); // what is mapped stays
            }
        } catch (IOException e) {
            throw new UnsatisfiedLinkError("the native library cannot be unpacked into "
                    + System.getProperty("java.io.tmpdir") + ": " + e.getMessage());
        }
    }

    /** Options as name, text, name, text. Returns the address of a slot. */
    static native long open(String url, String[] options);

    /** An ID, or 0: ask mint, which says why. */
    static native long tryNext(long slot);

    /** How many IDs could be had at once; if none, why[0] says why. */
    static native int mint(long slot, long[] ids, int offset, int count, KazahanaException[] why);

    static native void close(long slot);

    static native void free(long slot);

    static native long[] stats(long slot);

    static native String layoutOf(long slot);

    static native String layout(String text);

    static native long[] decode(String layout, long id);

    static native long edge(String layout, long unixMs, boolean max);

    static native String text(long id, int form);

    static native long parse(String text, int form);

    static native long keys(byte[] lines);

    static native void freeKeys(long keys);

    static native String external(long keys, String type, long id);

    static native long internal(long keys, String type, String text);
}
