package kazahana.hibernate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.List;
import kazahana.Tsid;
import kazahana.TsidFactory;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class TsidGeneratorTest {
    @Entity(name = "Post")
    @Table(name = "posts")
    static class Post {
        @Id
        @TsidGenerator
        @Column(name = "internal_id")
        Long internalId;

        String content;
    }

    @Entity(name = "Named")
    static class Named {
        @Id
        @TsidGenerator
        String id;
    }

    @AfterEach
    void noFactory() {
        TsidIdGenerator.setTsidFactory(null);
    }

    private static SessionFactory sessions() {
        return new Configuration()
                .setProperty("hibernate.connection.url", "jdbc:h2:mem:" + System.nanoTime())
                .setProperty("hibernate.hbm2ddl.auto", "create-drop")
                .addAnnotatedClass(Post.class)
                .addAnnotatedClass(Named.class)
                .buildSessionFactory();
    }

    @Test
    void rowsGetKeysThatIncrease() {
        try (TsidFactory factory = TsidFactory.builder().withNode(42).build(); SessionFactory sessions = sessions()) {
            TsidIdGenerator.setTsidFactory(factory);
            sessions.inTransaction(session -> {
                for (int i = 0; i < 1000; i++) {
                    Post post = new Post();
                    post.content = "post " + i;
                    session.persist(post);
                }
                session.persist(new Named());
            });
            List<Long> ids = sessions.fromSession(session -> session
                    .createQuery("select internalId from Post order by internalId", Long.class).getResultList());
            assertEquals(1000, ids.stream().distinct().count());
            assertEquals(42, ids.get(0) >> 12 & 1023);
            String name = sessions.fromSession(session -> session
                    .createQuery("select id from Named", String.class).getSingleResult());
            assertTrue(Tsid.isValid(name), name);
        }
    }

    @Test
    void withoutAFactoryTheSeedsWordsSayWhatIsMissing() {
        try (SessionFactory sessions = sessions()) {
            Exception e = assertThrows(Exception.class, () -> sessions.inTransaction(s -> s.persist(new Post())));
            assertTrue(e.getMessage().contains("TSID Factory not initialized"), e.getMessage());
        }
    }

    @Test
    void onlyTheFactoryThatIsSetIsTakenAway() {
        try (TsidFactory old = TsidFactory.builder().withNode(1).build();
                TsidFactory current = TsidFactory.builder().withNode(2).build()) {
            TsidIdGenerator.setTsidFactory(current);
            TsidIdGenerator.unsetTsidFactory(old);
            assertEquals(2, (Long) new TsidIdGenerator().generate(null, null) >> 12 & 1023);
            TsidIdGenerator.unsetTsidFactory(current);
            assertThrows(IllegalStateException.class, () -> new TsidIdGenerator().generate(null, null));
        }
    }
}
