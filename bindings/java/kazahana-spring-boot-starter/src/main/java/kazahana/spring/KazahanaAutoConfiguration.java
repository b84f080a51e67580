package kazahana.spring;

import io.micrometer.core.instrument.MeterRegistry;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.Set;
import kazahana.TsidFactory;
import kazahana.hibernate.TsidIdGenerator;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/**
 * A {@link TsidFactory} for the application, made before the entity manager and closed after it; its health and its
 * meters; TSIDs as texts in JSON.
 */
@AutoConfiguration
public class KazahanaAutoConfiguration {
    /** Made by Spring. */
    public KazahanaAutoConfiguration() {}

    /** The factory, from {@code kazahana.source}, else from a TSID slot in Spring's Redis. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    TsidFactory tsidFactory(Environment environment) {
        return TsidSource.of(environment).open();
    }

    /** Hands the factory to {@code @TsidGenerator}. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.hibernate.id.IdentifierGenerator")
    static class HibernateConfiguration {
        static final String BRIDGE = "kazahanaHibernateBridge";

        @Bean(BRIDGE)
        Bridge kazahanaHibernateBridge(TsidFactory factory) {
            return new Bridge(factory);
        }

        /** The order of configurations is not the order of beans: entity managers are told to come after the factory. */
        @Bean
        static BeanFactoryPostProcessor kazahanaBeforeEntityManagers() {
            return HibernateConfiguration::bridgeFirst;
        }

        private static void bridgeFirst(ConfigurableListableBeanFactory beans) {
            Set<String> names = new LinkedHashSet<>();
            for (String type : new String[] {"jakarta.persistence.EntityManagerFactory", "org.hibernate.SessionFactory"}) {
                try {
                    names.addAll(Arrays.asList(beans.getBeanNamesForType(
                            Class.forName(type, false, beans.getBeanClassLoader()), true, false)));
                } catch (ClassNotFoundException e) {
                    // Then no such bean is there.
                }
            }
            for (String name : names) {
                String plain = name.startsWith("&") ? name.substring(1) : name;
                if (!beans.containsBeanDefinition(plain)) {
                    continue;
                }
                BeanDefinition definition = beans.getBeanDefinition(plain);
                Set<String> after = new LinkedHashSet<>();
                if (definition.getDependsOn() != null) {
                    after.addAll(Arrays.asList(definition.getDependsOn()));
                }
                after.add(BRIDGE);
                definition.setDependsOn(after.toArray(new String[0]));
            }
        }
    }

    static final class Bridge implements DisposableBean {
        private final TsidFactory factory;

        Bridge(TsidFactory factory) {
            this.factory = factory;
            TsidIdGenerator.setTsidFactory(factory);
        }

        @Override
        public void destroy() {
            TsidIdGenerator.unsetTsidFactory(factory);
        }
    }

    /** {@code /actuator/health/kazahana} of Boot 3. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.actuate.health.HealthIndicator")
    static class Health3Configuration {
        @Bean
        @ConditionalOnMissingBean(name = "kazahanaHealthIndicator")
        org.springframework.boot.actuate.health.HealthIndicator kazahanaHealthIndicator(TsidFactory factory) {
            return () -> {
                FactoryHealth health = FactoryHealth.of(factory);
                return (health.up() ? org.springframework.boot.actuate.health.Health.up()
                        : org.springframework.boot.actuate.health.Health.down()).withDetails(health.details()).build();
            };
        }
    }

    /** {@code /actuator/health/kazahana} of Boot 4. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.health.contributor.HealthIndicator")
    static class Health4Configuration {
        @Bean
        @ConditionalOnMissingBean(name = "kazahanaHealthIndicator")
        org.springframework.boot.health.contributor.HealthIndicator kazahanaHealthIndicator(TsidFactory factory) {
            return () -> {
                FactoryHealth health = FactoryHealth.of(factory);
                return (health.up() ? org.springframework.boot.health.contributor.Health.up()
                        : org.springframework.boot.health.contributor.Health.down()).withDetails(health.details())
                        .build();
            };
        }
    }

    /** Meters, named as the lease server's metrics are. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    static class MetersConfiguration {
        @Bean
        @ConditionalOnMissingBean
        FactoryMeters kazahanaMeters(TsidFactory factory) {
            return new FactoryMeters(factory);
        }
    }

    /** TSIDs as texts with Jackson 2. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "com.fasterxml.jackson.databind.ObjectMapper")
    static class Jackson2Configuration {
        @Bean
        @ConditionalOnMissingBean
        TsidJackson2Module kazahanaJackson2Module() {
            return new TsidJackson2Module();
        }
    }

    /** TSIDs as texts with Jackson 3. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "tools.jackson.databind.ObjectMapper")
    static class Jackson3Configuration {
        @Bean
        @ConditionalOnMissingBean
        TsidJackson3Module kazahanaJackson3Module() {
            return new TsidJackson3Module();
        }
    }
}
