package seed;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import kazahana.TsidFactory; // the one changed import
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.RedisConnectionFailureException;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** The design's own configuration as its readers have it, on kazahana's factory. */
@Configuration
@EnableScheduling
public class TsidConfig {
    private static final Logger logger = LoggerFactory.getLogger(TsidConfig.class);

    @Autowired(required = false)
    private StringRedisTemplate redisTemplate;

    @Value("${tsid.allow-dev-mode:false}")
    private boolean allowDevMode;

    private static final String NODE_KEY_PREFIX = "sys:tsid:node:";
    private static final int MAX_NODE_ID = 1024; // 10 bits

    private final AtomicReference<String> allocatedNodeKey = new AtomicReference<>();

    @Bean
    public TsidFactory tsidFactory() {
        int nodeId = allocateNodeId();

        if (nodeId < 0 || nodeId >= MAX_NODE_ID) {
            throw new IllegalStateException(
                String.format("Invalid TSID Node ID: %d. Must be in range [0, %d)",
                            nodeId, MAX_NODE_ID - 1)
            );
        }

        logger.info(">>> TSID Initialized with Node ID: {} (Range: 0-{})", nodeId, MAX_NODE_ID - 1);

        TsidFactory factory = TsidFactory.builder()
                .withNode(nodeId)
                .build();

        TsidIdGenerator.setTsidFactory(factory);

        return factory;
    }

    private int allocateNodeId() {
        if (redisTemplate == null) {
            if (allowDevMode) {
                int randomNodeId = (int) (Math.random() * MAX_NODE_ID);
                logger.info("Using random Node ID: {} (dev mode)", randomNodeId);
                return randomNodeId;
            } else {
                throw new IllegalStateException(
                    "Cannot allocate TSID nodeId – Redis unavailable. " +
                    "TSID requires Redis for distributed node allocation. " +
                    "Set tsid.allow-dev-mode=true for development (NOT recommended for production)."
                );
            }
        }

        try {
            for (int i = 0; i < MAX_NODE_ID; i++) {
                String key = NODE_KEY_PREFIX + i;
                Boolean acquired = redisTemplate.opsForValue()
                        .setIfAbsent(key, "LOCKED", Duration.ofHours(24));

                if (Boolean.TRUE.equals(acquired)) {
                    allocatedNodeKey.set(key);
                    logger.info("Successfully allocated TSID Node ID: {} from Redis", i);
                    return i;
                }
            }

            throw new IllegalStateException(
                String.format("Cannot allocate TSID nodeId – All Node IDs (0-%d) are in use. " +
                            "Maximum capacity reached. Please check for stale locks in Redis.",
                            MAX_NODE_ID - 1)
            );
        } catch (RedisConnectionFailureException e) {
            if (allowDevMode) {
                int randomNodeId = (int) (Math.random() * MAX_NODE_ID);
                return randomNodeId;
            } else {
                throw new IllegalStateException(
                    "Cannot allocate TSID nodeId – Redis connection failed: " + e.getMessage() +
                    ". TSID requires Redis for distributed node allocation.",
                    e
                );
            }
        }
    }

    @Scheduled(fixedDelayString = "PT12H", initialDelayString = "PT12H")
    public void refreshTsidLock() {
        String key = allocatedNodeKey.get();
        if (key == null || redisTemplate == null) {
            return;
        }

        try {
            redisTemplate.expire(key, Duration.ofHours(24));
            logger.debug("Refreshed TSID node lock: {}", key);
        } catch (Exception e) {
            logger.error("Failed to refresh TSID node lock: {}. " +
                        "Lock will expire in 24 hours. Application should restart to re-acquire lock.",
                        key, e);
        }
    }
}
