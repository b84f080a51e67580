package kazahana;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/** A Redis of the test's own, on loopback. */
public final class RealRedis implements AutoCloseable {
    private final Process process;
    private final Path folder;
    private final int port;

    /** Starts it; skips the test where there is none. */
    public RealRedis() throws IOException, InterruptedException {
        Assumptions.assumeTrue(Stream.of(System.getenv("PATH").split(":"))
                .anyMatch(p -> Files.isExecutable(Path.of(p, "redis-server"))), "redis-server is not installed");
        folder = Files.createTempDirectory("kazahana-redis");
        port = freePort();
        process = new ProcessBuilder("redis-server", "--bind", "127.0.0.1", "--port", Integer.toString(port), "--dir",
                folder.toString(), "--appendonly", "yes", "--appendfsync", "always", "--save", "")
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        while (!answers()) {
            if (!process.isAlive()) {
                throw new IllegalStateException("redis-server ended by itself");
            }
            Thread.sleep(20);
        }
    }

    public static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private boolean answers() {
        try {
            return command("PING").startsWith("+PONG");
        } catch (IOException e) {
            return false;
        }
    }

    /** One line in, what comes back first. */
    public String command(String line) throws IOException {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.getOutputStream().write((line + "\r\n").getBytes(StandardCharsets.UTF_8));
            byte[] answer = new byte[4096];
            int length = socket.getInputStream().read(answer);
            return length < 0 ? "" : new String(answer, 0, length, StandardCharsets.UTF_8);
        }
    }

    public int port() {
        return port;
    }

    @Override
    public void close() throws IOException {
        process.destroyForcibly();
        process.onExit().join();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
