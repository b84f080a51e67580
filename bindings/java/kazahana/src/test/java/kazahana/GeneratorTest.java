package kazahana;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    /** Each list in order, and no ID twice. */
    static void noDuplicates(List<long[]> lists) {
        for (long[] list : lists) {
            for (int i = 1; i < list.length; i++) {
                assertTrue(Long.compareUnsigned(list[i - 1], list[i]) < 0, list[i] + " after " + list[i - 1]);
            }
        }
        long[] all = lists.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        for (int i = 1; i < all.length; i++) {
            assertTrue(all[i - 1] != all[i], all[i] + " was given twice");
        }
    }

    private static void mintWith(ExecutorService threads, Generator gen) throws Exception {
        List<Future<long[]>> results = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
            boolean batches = t == 0;
            results.add(threads.submit(() -> {
                if (batches) {
                    return gen.next(20000);
                }
                long[] ids = new long[20000];
                for (int i = 0; i < ids.length; i++) {
                    ids[i] = gen.next();
                }
                return ids;
            }));
        }
        List<long[]> lists = new ArrayList<>();
        for (Future<long[]> result : results) {
            lists.add(result.get());
        }
        threads.shutdown();
        noDuplicates(lists);
    }

    @Test
    void threadsMintDifferentIdsEachInOrder() throws Exception {
        try (Generator gen = Generator.builder("static:1").layout("41-2-20@2026-01-01").build()) {
            mintWith(Executors.newFixedThreadPool(8), gen);
        }
        // Its sequence runs out in every millisecond.
        try (Generator gen = Generator.builder("static:2").layout("snowflake").timeout(Duration.ofSeconds(-1)).build()) {
            mintWith(Executors.newFixedThreadPool(8), gen);
            assertTrue(gen.stats().leased() >= 160000);
        }
        // Its leases are handed over all the time.
        try (Generator gen = Generator.builder("memory:?lease=100ms").service("threads")
                .timeout(Duration.ofSeconds(-1)).build()) {
            mintWith(Executors.newFixedThreadPool(8), gen);
        }
    }

    @Test
    void virtualThreadsToo() throws Exception {
        Method make = null;
        try {
            make = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
        } catch (NoSuchMethodException e) {
            Assumptions.abort("virtual threads came with Java 21, this is " + Runtime.version());
        }
        try (Generator gen = Generator.builder("static:3").layout("snowflake").timeout(Duration.ofSeconds(-1)).build()) {
            mintWith((ExecutorService) make.invoke(null), gen);
        }
    }

    @Test
    void equalSourcesShareOneGenerator() {
        try (Generator a = Generator.builder("static:9").layout("snowflake").build();
                Generator b = Generator.builder("static:9").layout("snowflake").build()) {
            long last = a.next();
            for (int i = 0; i < 1000; i++) {
                long id = (i % 2 == 0 ? b : a).next();
                assertTrue(id > last);
                last = id;
            }
            a.close();
            assertTrue(b.next() > last);
        }
    }

    @Test
    void closeUnderMintersIsSafe() throws Exception {
        for (int round = 0; round < 100; round++) {
            Generator gen = Generator.builder("memory:").service("close" + round % 3).build();
            ExecutorService threads = Executors.newFixedThreadPool(8);
            List<Future<long[]>> results = new ArrayList<>();
            for (int t = 0; t < 8; t++) {
                results.add(threads.submit(() -> {
                    long[] ids = new long[1000000];
                    for (int i = 0; i < ids.length; i++) {
                        try {
                            ids[i] = gen.next();
                        } catch (KazahanaException e) {
                            assertEquals("the generator is closed", e.getMessage());
                            return Arrays.copyOf(ids, i);
                        }
                    }
                    return ids;
                }));
            }
            gen.close();
            gen.close();
            List<long[]> lists = new ArrayList<>();
            for (Future<long[]> result : results) {
                lists.add(result.get());
            }
            threads.shutdown();
            noDuplicates(lists);
            assertThrows(KazahanaException.class, gen::stats);
            assertThrows(KazahanaException.class, gen::tryNext);
        }
    }

    @Test
    void tryNextNeverWaits() {
        try (Generator gen = Generator.builder("static:4").layout("41-14-1@2026-01-01").build()) {
            for (int i = 0; i < 1000; i++) {
                OptionalLong id = gen.tryNext();
                if (id.isEmpty()) {
                    return;
                }
            }
        }
        throw new AssertionError("a thousand IDs were to be had without waiting, at two a millisecond");
    }

    @Test
    void aTimeoutAndAnInterruptEndTheWait() {
        try (Generator gen = Generator.builder("static:5").layout("41-14-1@2026-01-01").timeout(Duration.ofMillis(20))
                .build()) {
            KazahanaException e = assertThrows(KazahanaException.class, () -> gen.next(100000));
            assertEquals(KazahanaException.Status.TIMEOUT, e.status());
            Thread.currentThread().interrupt();
            assertThrows(KazahanaException.class, () -> gen.next(100000));
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void badInputIsNamed() {
        for (String[] bad : new String[][] {{"static:9999", "9999"}, {"nonsense", "nonsense"}, {"what:ever", "what"}}) {
            KazahanaException e = assertThrows(KazahanaException.class, () -> Generator.open(bad[0]));
            assertTrue(e.getMessage().contains(bad[1]), e.getMessage());
            assertTrue(e.getStackTrace().length > 0);
        }
        KazahanaException e = assertThrows(KazahanaException.class,
                () -> Generator.builder("static:1").with("colour", "blue").build());
        assertTrue(e.getMessage().contains("colour"), e.getMessage());
        assertThrows(KazahanaException.class, () -> Layout.parse("41-14-8@soon"));
        assertFalse(Tsid.isValid("short"));
        assertThrows(NullPointerException.class, () -> Tsid.isValid(null));
    }

    @Test
    void aTsidFactoryMakesTsids() {
        try (TsidFactory factory = TsidFactory.builder().withNode(777).build()) {
            Tsid first = factory.create();
            Tsid second = factory.create();
            assertTrue(first.compareTo(second) < 0);
            assertEquals(777, first.toLong() >> 12 & 1023);
            assertEquals(first, Tsid.from(first.toString()));
            assertEquals(first, Tsid.from(first.toLowerCase()));
            assertEquals(first, Tsid.from(first.toLong()));
            assertEquals(first.getUnixMilliseconds(),
                    Layout.parse("tsid").decode(first.toLong()).time().toEpochMilli());
            assertTrue(Math.abs(first.getUnixMilliseconds() - System.currentTimeMillis()) < 3600_000);
        }
        assertThrows(IllegalArgumentException.class, () -> TsidFactory.builder().withNode(1024));
        assertThrows(IllegalStateException.class, () -> TsidFactory.builder().build());
    }

    @Test
    void instancesTakeSlotsOfTheirOwnInRedis() throws Exception {
        try (RealRedis redis = new RealRedis()) {
            String url = "tsid+redis://127.0.0.1:" + redis.port() + "/0";
            redis.command("SET sys:tsid:node:0 LOCKED"); // a neighbour that claims by SETNX
            List<long[]> lists = new ArrayList<>();
            try (TsidFactory a = TsidFactory.builder().withSource(url).build();
                    TsidFactory b = TsidFactory.builder().withSource(url + "?refresh=11h").build()) {
                lists.add(a.generator().next(5000));
                lists.add(b.generator().next(5000));
                assertEquals(1, lists.get(0)[0] >> 12 & 1023);
                assertEquals(2, lists.get(1)[0] >> 12 & 1023);
                noDuplicates(lists);
                assertTrue(redis.command("GET sys:tsid:node:1").startsWith("$"));
            }
            assertTrue(redis.command("GET sys:tsid:node:1").startsWith("$-1"), "a closed factory keeps its slot");
        }
    }

    @Test
    void fourProcessesOnOneStoreNeverMeet() throws Exception {
        try (RealRedis redis = new RealRedis()) {
            String java = ProcessHandle.current().info().command().orElse("java");
            List<Process> processes = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                processes.add(new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "kazahana.Minter",
                        "redis://127.0.0.1:" + redis.port() + "/0?lease=1s", "20000")
                        .redirectError(ProcessBuilder.Redirect.INHERIT).start());
            }
            List<long[]> lists = new ArrayList<>();
            for (Process process : processes) {
                lists.add(process.inputReader().lines().mapToLong(Long::parseUnsignedLong).toArray());
                assertEquals(0, process.waitFor());
                assertEquals(20000, lists.get(lists.size() - 1).length);
            }
            noDuplicates(lists);
        }
    }

    @Test
    void aForgottenGeneratorIsClosedInTheEnd() throws Exception {
        assertNull(forget());
        for (int i = 0; i < 2000; i++) {
            System.gc();
            try (Generator again = Generator.builder("static:6").layout("snowflake").backward("fail").build()) {
                again.next();
                return;
            } catch (KazahanaException e) {
                Thread.sleep(10);
            }
        }
        throw new AssertionError("node 6 was never free again");
    }

    private static Generator forget() {
        Generator.builder("static:6").layout("snowflake").build().next();
        return null;
    }
}
