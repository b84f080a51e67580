package kazahana;

import java.time.Duration;

/**
 * Makes TSIDs. With {@code withNode} its node is the caller's to keep unique; with {@code withSource} a coordinator gives
 * it one that nobody else has: {@code tsid+redis://host:6379/0}, or a lease table.
 *
 * <pre>{@code
 * TsidFactory factory = TsidFactory.builder().withNode(7).build();
 * long id = factory.create().toLong();
 * }</pre>
 */
public final class TsidFactory implements AutoCloseable {
    private final Generator generator;

    private TsidFactory(Generator generator) {
        this.generator = generator;
    }

    /** How to make one. */
    public static Builder builder() {
        return new Builder();
    }

    /** The next TSID: above all that this factory made before. */
    public Tsid create() {
        return Tsid.from(generator.next());
    }

    /** The generator below: statistics, batches. */
    public Generator generator() {
        return generator;
    }

    /** Gives its node back. */
    @Override
    public void close() {
        generator.close();
    }

    /** Where the node comes from. */
    public static final class Builder {
        private static final int NODES = 1024;

        private String source;
        private String layout = "tsid";
        private Duration timeout = Duration.ofSeconds(10);

        private Builder() {}

        /** A node in 0..1023 that nobody else uses. */
        public Builder withNode(int node) {
            if (node < 0 || node >= NODES) {
                throw new IllegalArgumentException(
                        String.format("Invalid TSID Node ID: %d. Must be in range [0, %d)", node, NODES));
            }
            source = "static:" + node;
            return this;
        }

        /** A source URL: {@code tsid+redis://host:6379/0}, a lease server, a lease table. */
        public Builder withSource(String url) {
            source = url;
            return this;
        }

        /** Other bits than 42-10-12 from 2020-01-01; an empty text takes the source's own. */
        public Builder withLayout(String text) {
            layout = text;
            return this;
        }

        /** How long starting, and each wait for an ID, may take. */
        public Builder withTimeout(Duration limit) {
            timeout = limit;
            return this;
        }

        /** Opens the source. */
        public TsidFactory build() {
            if (source == null) {
                throw new IllegalStateException("a TSID needs a node: withNode(0..1023), or withSource(url) to be "
                        + "given one that nobody else has");
            }
            Generator.Builder b = Generator.builder(source).timeout(timeout);
            return new TsidFactory((layout.isEmpty() ? b : b.layout(layout)).build());
        }
    }
}
