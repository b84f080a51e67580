import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import java.util.function.LongSupplier;
import kazahana.Generator;
import kazahana.TsidFactory;

/** Answers "NAME" with the nanoseconds of this thread's processor time for one ID. */
public final class Harness {
    private static final int COUNT = 1 << 20;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private static long last;

    /** Stops everything when an ID is not above the one before. */
    private static double measure(LongSupplier next, boolean ordered) {
        last = 0;
        long begin = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < COUNT; i++) {
            long id = next.getAsLong();
            if (ordered && Long.compareUnsigned(id, last) <= 0) {
                throw new IllegalStateException(id + " after " + last);
            }
            last = id;
        }
        return (double) (THREADS.getCurrentThreadCpuTime() - begin) / COUNT;
    }

    private static double fill(Generator generator) {
        long[] ids = new long[1024];
        long begin = THREADS.getCurrentThreadCpuTime();
        for (int i = 0; i < COUNT; i += ids.length) {
            generator.fill(ids);
            if (Long.compareUnsigned(ids[0], last) <= 0) {
                throw new IllegalStateException(ids[0] + " after " + last);
            }
            last = ids[ids.length - 1];
        }
        return (double) (THREADS.getCurrentThreadCpuTime() - begin) / COUNT;
    }

    public static void main(String[] args) throws Exception {
        String layout = "41-2-20@2026-01-01";
        Generator generator = Generator.builder("static:1").layout(layout).build();
        TsidFactory factory = TsidFactory.builder().withSource("static:2").withLayout(layout).build();
        com.github.f4b6a3.tsid.TsidFactory peer = com.github.f4b6a3.tsid.TsidFactory.builder().withNodeBits(2)
                .withNode(1).withCustomEpoch(Instant.parse("2026-01-01T00:00:00Z")).build();
        Map<String, LongSupplier> kinds = Map.of("next", generator::next, "create", () -> factory.create().toLong(),
                "tsid-creator", () -> peer.create().toLong());
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String name; (name = in.readLine()) != null;) {
            if (name.equals("fill")) {
                last = 0;
                System.out.printf("%.2f%n", fill(generator));
            } else if (name.equals("randomUUID")) {
                System.out.printf("%.2f%n", measure(() -> UUID.randomUUID().getMostSignificantBits(), false));
            } else {
                System.out.printf("%.2f%n", measure(kinds.get(name), true));
            }
        }
    }
}
