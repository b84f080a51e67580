package seed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.HashSet;
import java.util.Set;
import kazahana.RealRedis;
import kazahana.TsidFactory;
import org.hibernate.annotations.IdGeneratorType;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;

/** The design's code runs on kazahana, and beside kazahana's own slots in the same Redis. */
class SeedTest {
    @SpringBootApplication
    static class App {}

    @IdGeneratorType(TsidIdGenerator.class)
    @java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)
    @interface TsidGenerator {}

    @Entity(name = "SeedPost")
    @Table(name = "posts")
    static class Post {
        @Id
        @TsidGenerator
        @Column(name = "internal_id")
        private Long internalId;
    }

    @Test
    void theDesignsConfigurationMakesKeysThatNobodyElseHas() throws Exception {
        try (RealRedis redis = new RealRedis();
                TsidFactory ours = TsidFactory.builder()
                        .withSource("tsid+redis://127.0.0.1:" + redis.port() + "/0").build();
                ConfigurableApplicationContext context = new SpringApplicationBuilder(App.class)
                        .web(WebApplicationType.NONE)
                        .properties("spring.data.redis.host=127.0.0.1", "spring.data.redis.port=" + redis.port(),
                                "spring.datasource.url=jdbc:h2:mem:seed", "spring.datasource.username=sa",
                                "spring.jpa.hibernate.ddl-auto=create-drop", "spring.main.banner-mode=off",
                                "logging.level.root=warn")
                        .run("--spring.datasource.url=jdbc:h2:mem:seed", "--spring.datasource.username=sa")) {
            Set<Long> ids = new HashSet<>();
            EntityManager entities = context.getBean(EntityManager.class);
            context.getBean(TransactionTemplate.class).executeWithoutResult(status -> {
                for (int i = 0; i < 1000; i++) {
                    Post post = new Post();
                    entities.persist(post);
                    ids.add(post.internalId);
                    ids.add(ours.create().toLong());
                }
            });
            assertEquals(2000, ids.size());
            assertTrue(redis.command("GET sys:tsid:node:1").contains("LOCKED"));
            context.getBean(TsidConfig.class).refreshTsidLock();
        }
    }
}
