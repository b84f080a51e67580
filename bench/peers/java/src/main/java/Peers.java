import com.github.f4b6a3.tsid.TsidFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;

/**
 * tsid-creator and CosId, both with 2 bits of node and 20 of sequence. Answers "NAME THREADS" with
 * "NS TWINS DISORDER AHEAD_MS OLD_MS": see ../../../../c/harness.h.
 */
public final class Peers {
    private static final int COUNT = 262144;
    private static final long EPOCH_MS = 1767225600000L;

    private interface Fill {
        void fill(long[] ids);
    }

    private static Fill tsid() {
        TsidFactory factory = TsidFactory.builder().withNodeBits(2).withNode(1)
                .withCustomEpoch(Instant.ofEpochMilli(EPOCH_MS)).build();
        return ids -> {
            for (int i = 0; i < ids.length; i++) {
                ids[i] = factory.create().toLong();
            }
        };
    }

    private static Fill cosid() {
        MillisecondSnowflakeId generator = new MillisecondSnowflakeId(EPOCH_MS, 41, 2, 20, 1);
        return ids -> {
            for (int i = 0; i < ids.length; i++) {
                ids[i] = generator.generate();
            }
        };
    }

    /** The time of both must be the same one to four fifths. */
    private static double timeOfOne(long[] first, long[] last) {
        long all = Arrays.stream(last).max().orElse(0) - Arrays.stream(first).min().orElse(0);
        double took = Arrays.stream(last).sum() - Arrays.stream(first).sum();
        return took > 0.8 * all * first.length ? took / first.length / COUNT : Double.NaN;
    }

    private static String answer(Fill fill, int threads) throws InterruptedException {
        long[][] ids = new long[threads][COUNT];
        long[] first = new long[threads];
        long[] last = new long[threads];
        long[] end = new long[threads];
        Thread[] started = new Thread[threads];
        AtomicInteger arrived = new AtomicInteger();
        for (int t = 0; t < threads; t++) {
            int self = t;
            started[t] = new Thread(() -> {
                arrived.incrementAndGet();
                while (arrived.get() < threads) {
                    Thread.onSpinWait();
                }
                first[self] = System.nanoTime();
                fill.fill(ids[self]);
                last[self] = System.nanoTime();
                end[self] = System.currentTimeMillis();
            });
            started[t].start();
        }
        for (Thread thread : started) {
            thread.join();
        }
        long ahead = 0;
        long old = 0;
        int disorder = 0;
        int twins = 0;
        long[] all = new long[threads * COUNT];
        for (int t = 0; t < threads; t++) {
            long by = (ids[t][COUNT - 1] >>> 22) + EPOCH_MS - end[t];
            ahead = Math.max(ahead, by);
            old = Math.max(old, -by);
            for (int i = 1; i < COUNT; i++) {
                disorder += ids[t][i - 1] >= ids[t][i] ? 1 : 0;
            }
            System.arraycopy(ids[t], 0, all, t * COUNT, COUNT);
        }
        Arrays.sort(all);
        for (int i = 1; i < all.length; i++) {
            twins += all[i - 1] == all[i] ? 1 : 0;
        }
        return timeOfOne(first, last) + " " + twins + " " + disorder + " " + ahead + " " + old;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Fill> peers = Map.of("tsid-creator", tsid(), "cosid", cosid());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(answer(peers.get(words[0]), Integer.parseInt(words[1])));
        }
    }
}
