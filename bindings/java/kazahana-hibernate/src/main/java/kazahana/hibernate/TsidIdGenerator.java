package kazahana.hibernate;

import java.util.Properties;
import kazahana.Tsid;
import kazahana.TsidFactory;
import org.hibernate.MappingException;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.id.IdentifierGenerator;
import org.hibernate.service.ServiceRegistry;
import org.hibernate.type.Type;

/** What {@link TsidGenerator} stands for. Its factory is one for the whole application. */
public class TsidIdGenerator implements IdentifierGenerator {
    private static final long serialVersionUID = 1;
    private static volatile TsidFactory factory;

    private Class<?> type = Long.class;

    /** Made by Hibernate. */
    public TsidIdGenerator() {}

    /** The factory that makes the keys. A factory set later replaces it; null takes it away. */
    public static void setTsidFactory(TsidFactory tsidFactory) {
        factory = tsidFactory;
    }

    /** Takes the factory away if it is still this one: a context that closes must not break the next one's. */
    public static synchronized void unsetTsidFactory(TsidFactory tsidFactory) {
        if (factory == tsidFactory) {
            factory = null;
        }
    }

    @Override
    public void configure(Type type, Properties parameters, ServiceRegistry services) throws MappingException {
        Class<?> wanted = type.getReturnedClass();
        if (wanted != Long.class && wanted != long.class && wanted != String.class && wanted != Tsid.class) {
            throw new MappingException("@TsidGenerator makes keys of type Long, String or Tsid, not "
                    + wanted.getName());
        }
        this.type = wanted;
    }

    @Override
    public Object generate(SharedSessionContractImplementor session, Object entity) {
        TsidFactory made = factory;
        if (made == null) {
            throw new IllegalStateException("TSID Factory not initialized. "
                    + "TsidConfig.tsidFactory() must be called during Spring context initialization.");
        }
        Tsid tsid = made.create();
        if (type == String.class) {
            return tsid.toString();
        }
        return type == Tsid.class ? tsid : (Object) tsid.toLong();
    }
}
