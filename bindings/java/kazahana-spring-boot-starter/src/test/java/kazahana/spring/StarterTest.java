package kazahana.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.HashSet;
import java.util.Set;
import kazahana.RealRedis;
import kazahana.Tsid;
import kazahana.TsidFactory;
import kazahana.hibernate.TsidGenerator;
import kazahana.hibernate.TsidIdGenerator;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;

class StarterTest {
    @SpringBootApplication
    static class App {}

    @Entity(name = "Post")
    @Table(name = "posts")
    static class Post {
        @Id
        @TsidGenerator
        @Column(name = "internal_id")
        @JsonSerialize(using = ToStringSerializer.class)
        public Long internalId;

        public String content;
    }

    private static ConfigurableApplicationContext start(String... properties) {
        return new SpringApplicationBuilder(App.class).web(WebApplicationType.NONE)
                .properties("spring.main.banner-mode=off", "spring.jpa.hibernate.ddl-auto=create-drop",
                        "logging.level.root=warn", "spring.datasource.generate-unique-name=true")
                .properties(properties).run();
    }

    private static Set<Long> store(ConfigurableApplicationContext context, int count) {
        Set<Long> ids = new HashSet<>();
        EntityManager entities = context.getBean(EntityManager.class);
        context.getBean(TransactionTemplate.class).executeWithoutResult(status -> {
            for (int i = 0; i < count; i++) {
                Post post = new Post();
                post.content = "post " + i;
                entities.persist(post);
                ids.add(post.internalId);
            }
        });
        return ids;
    }

    @Test
    void rowsGetKeysFromASlotInRedis() throws Exception {
        try (RealRedis redis = new RealRedis()) {
            String port = "spring.data.redis.port=" + redis.port();
            Set<Long> all = new HashSet<>();
            try (ConfigurableApplicationContext context = start("spring.data.redis.host=127.0.0.1", port)) {
                all.addAll(store(context, 1000));
                assertTrue(redis.command("EXISTS sys:tsid:node:0").startsWith(":1"));
                HealthIndicator health = context.getBean("kazahanaHealthIndicator", HealthIndicator.class);
                assertEquals(Status.UP, health.health().getStatus());
                SimpleMeterRegistry meters = new SimpleMeterRegistry();
                context.getBean(FactoryMeters.class).bindTo(meters);
                assertTrue(meters.get("kazahana.ids").tag("kind", "leased").functionCounter().count() >= 1000);
                context.getBean(TsidFactory.class).close();
                assertEquals(Status.DOWN, health.health().getStatus());
            }
            assertTrue(redis.command("EXISTS sys:tsid:node:0").startsWith(":0"), "the slot is kept");
            // Closed and opened again, in the same process.
            try (ConfigurableApplicationContext context = start("spring.data.redis.host=127.0.0.1", port)) {
                all.addAll(store(context, 1000));
            }
            assertEquals(2000, all.size());
        }
    }

    @Test
    void withoutRedisTheStartFailsInTheSeedsWords() throws Exception {
        String port = "spring.data.redis.port=" + RealRedis.freePort();
        Exception e = assertThrows(Exception.class,
                () -> start("spring.data.redis.host=127.0.0.1", port, "kazahana.timeout=1s").close());
        Throwable cause = e;
        while (cause.getCause() != null && !cause.getMessage().startsWith("Cannot allocate")) {
            cause = cause.getCause();
        }
        assertTrue(cause.getMessage().startsWith("Cannot allocate TSID nodeId – Redis connection failed: "),
                cause.getMessage());
        assertTrue(cause.getMessage().contains("127.0.0.1"), cause.getMessage());

        Exception none = assertThrows(Exception.class, () -> start().close());
        while (none.getCause() instanceof Exception inner) {
            none = inner;
        }
        assertTrue(none.getMessage().contains("Set tsid.allow-dev-mode=true"), none.getMessage());
    }

    @Test
    void allSlotsTakenFailsInTheSeedsWords() throws Exception {
        try (RealRedis redis = new RealRedis()) {
            for (int i = 0; i < 1024; i++) {
                redis.command("SET sys:tsid:node:" + i + " LOCKED");
            }
            Exception e = assertThrows(Exception.class, () -> start("spring.data.redis.host=127.0.0.1",
                    "spring.data.redis.port=" + redis.port(), "tsid.allow-dev-mode=true").close());
            Throwable cause = e;
            while (cause.getCause() != null && !cause.getMessage().startsWith("Cannot allocate")) {
                cause = cause.getCause();
            }
            assertTrue(cause.getMessage().contains("All Node IDs (0-1023) are in use"), cause.getMessage());
        }
    }

    @Test
    void devModeTakesARandomNodeAndSaysSo() throws Exception {
        try (ConfigurableApplicationContext context = start("spring.data.redis.host=127.0.0.1",
                "spring.data.redis.port=" + RealRedis.freePort(), "tsid.allow-dev-mode=true", "kazahana.timeout=1s")) {
            assertEquals(10, store(context, 10).size());
            assertTrue(context.getBean(TsidFactory.class).generator().stats().unfencedNow());
        }
    }

    @Test
    void anySourceCanBeNamed() throws Exception {
        try (ConfigurableApplicationContext context = start("kazahana.source=static:33")) {
            long id = store(context, 1).iterator().next();
            assertEquals(33, id >> 12 & 1023);
        }
        assertThrows(IllegalStateException.class, () -> new TsidIdGenerator().generate(null, null));
    }

    @Test
    void tsidsAndKeysAreTextsInJson() throws Exception {
        ObjectMapper mapper = new ObjectMapper().registerModule(new TsidJackson2Module());
        Tsid tsid = Tsid.from(7277771434402209792L);
        assertEquals('"' + tsid.toString() + '"', mapper.writeValueAsString(tsid));
        assertEquals(tsid, mapper.readValue(mapper.writeValueAsString(tsid), Tsid.class));
        Exception e = assertThrows(Exception.class, () -> mapper.readValue("\"x\"", Tsid.class));
        assertTrue(e.getMessage().contains("13 characters"), e.getMessage());
        Post post = new Post();
        post.internalId = 7277771434402209792L;
        assertTrue(mapper.writeValueAsString(post).contains("\"internalId\":\"7277771434402209792\""));
        assertFalse(new ObjectMapper().writeValueAsString(7L).contains("\""));
    }
}
