package kazahana.spring;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import kazahana.Generator;
import kazahana.KazahanaException;
import kazahana.TsidFactory;

/** How the factory is: up while it can mint, and where it stands. */
record FactoryHealth(boolean up, Map<String, Object> details) {
    static FactoryHealth of(TsidFactory factory) {
        Map<String, Object> details = new LinkedHashMap<>();
        try {
            Generator.Stats stats = factory.generator().stats();
            long end = stats.windowEndUnixMs();
            boolean up = end > System.currentTimeMillis();
            details.put("leases", stats.leases());
            details.put("acquireFailures", stats.acquireFailures());
            details.put("windowEnd", end == Long.MAX_VALUE ? "never" : Instant.ofEpochMilli(end).toString());
            details.put("unfenced", stats.unfencedNow());
            return new FactoryHealth(up, details);
        } catch (KazahanaException e) {
            details.put("error", e.getMessage());
            return new FactoryHealth(false, details);
        }
    }
}
