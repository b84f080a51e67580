package seed;

import java.io.Serializable;
import kazahana.TsidFactory;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.id.IdentifierGenerator;

public class TsidIdGenerator implements IdentifierGenerator {
    private static TsidFactory tsidFactory;

    public static void setTsidFactory(TsidFactory factory) {
        tsidFactory = factory;
    }

    @Override
    public Serializable generate(SharedSessionContractImplementor session, Object object) {
        if (tsidFactory == null) {
            throw new IllegalStateException(
                "TSID Factory not initialized. " +
                "TsidConfig.tsidFactory() must be called during Spring context initialization."
            );
        }
        return tsidFactory.create().toLong();
    }
}
