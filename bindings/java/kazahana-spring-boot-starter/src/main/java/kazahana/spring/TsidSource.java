package kazahana.spring;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import kazahana.KazahanaException;
import kazahana.KazahanaException.Status;
import kazahana.TsidFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;

/**
 * Where the application's node comes from:
 *
 * <ul>
 *   <li>{@code kazahana.source}: any source URL; {@code kazahana.layout} and {@code kazahana.timeout} beside it
 *   <li>else a TSID slot in the Redis of {@code spring.data.redis.*}
 *   <li>{@code tsid.allow-dev-mode}: a random node when Redis is not there, which promises nothing
 * </ul>
 */
final class TsidSource {
    private static final String NODES = "0-1023";

    private final String url;
    private final String layout;
    private final Duration timeout;

    private TsidSource(String url, String layout, Duration timeout) {
        this.url = url;
        this.layout = layout;
        this.timeout = timeout;
    }

    static TsidSource of(Environment environment) {
        String layout = environment.getProperty("kazahana.layout", "tsid");
        Duration timeout = DurationStyle.detectAndParse(environment.getProperty("kazahana.timeout", "10s"));
        String source = environment.getProperty("kazahana.source");
        if (source != null && !source.isBlank()) {
            return new TsidSource(source, layout, timeout);
        }
        boolean dev = environment.getProperty("tsid.allow-dev-mode", Boolean.class, false);
        return new TsidSource(redisUrl(environment, dev), layout, timeout);
    }

    private static String redisUrl(Environment environment, boolean dev) {
        String given = environment.getProperty("spring.data.redis.url");
        String host = environment.getProperty("spring.data.redis.host");
        boolean redis = given != null || host != null
                || ClassUtils.isPresent("org.springframework.data.redis.core.StringRedisTemplate", null);
        if (!redis && !dev) {
            throw new IllegalStateException("Cannot allocate TSID nodeId – Redis unavailable. "
                    + "TSID requires Redis for distributed node allocation. "
                    + "Set tsid.allow-dev-mode=true for development (NOT recommended for production).");
        }
        StringBuilder url = new StringBuilder("tsid+");
        if (given != null) {
            url.append(given);
        } else {
            boolean tls = environment.getProperty("spring.data.redis.ssl.enabled", Boolean.class, false);
            url.append(tls ? "rediss://" : "redis://");
            String password = environment.getProperty("spring.data.redis.password");
            if (password != null && !password.isEmpty()) {
                url.append(encoded(environment.getProperty("spring.data.redis.username", ""))).append(':')
                        .append(encoded(password)).append('@');
            }
            url.append(host == null ? "localhost" : host).append(':')
                    .append(environment.getProperty("spring.data.redis.port", "6379")).append('/')
                    .append(environment.getProperty("spring.data.redis.database", "0"));
        }
        if (dev) {
            url.append(url.indexOf("?") < 0 ? "?dev=1" : "&dev=1");
        }
        return url.toString();
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Opens it; a failure ends the start, in the words of the design that its operators know. */
    TsidFactory open() {
        try {
            return TsidFactory.builder().withSource(url).withLayout(layout).withTimeout(timeout).build();
        } catch (KazahanaException e) {
            Status why = e.status() == Status.LEASE_ACQUISITION ? e.reason() : e.status();
            if (!url.startsWith("tsid+")) {
                throw e;
            }
            if (why == Status.NO_FREE_NODE) {
                throw new IllegalStateException("Cannot allocate TSID nodeId – All Node IDs (" + NODES
                        + ") are in use. Maximum capacity reached. Please check for stale locks in Redis.", e);
            }
            throw new IllegalStateException("Cannot allocate TSID nodeId – Redis connection failed: " + e.getMessage()
                    + ". TSID requires Redis for distributed node allocation.", e);
        }
    }
}
