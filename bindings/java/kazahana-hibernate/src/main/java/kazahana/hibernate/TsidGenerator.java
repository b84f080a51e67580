package kazahana.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * Gives an entity's key a TSID when it is first stored.
 *
 * <pre>{@code
 * @Id
 * @TsidGenerator
 * private Long id;
 * }</pre>
 *
 * <p>The key may be a {@code Long} or {@code long}, a {@code String} (13 characters) or a {@link kazahana.Tsid}.
 */
@IdGeneratorType(TsidIdGenerator.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.FIELD, ElementType.METHOD})
public @interface TsidGenerator {}
