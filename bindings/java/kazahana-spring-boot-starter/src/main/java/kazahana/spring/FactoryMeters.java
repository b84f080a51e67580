package kazahana.spring;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.ToLongFunction;
import kazahana.Generator;
import kazahana.KazahanaException;
import kazahana.TsidFactory;

/** The factory's counters as meters. */
final class FactoryMeters implements MeterBinder {
    private final TsidFactory factory;

    FactoryMeters(TsidFactory factory) {
        this.factory = factory;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        ids(registry, "leased", Generator.Stats::leased);
        ids(registry, "fenced", Generator.Stats::fenced);
        ids(registry, "unfenced", Generator.Stats::unfenced);
        counter(registry, "kazahana.sequence.exhausted", Generator.Stats::sequenceExhausted);
        counter(registry, "kazahana.clock.back", Generator.Stats::clockBackward);
        counter(registry, "kazahana.acquire.failures", Generator.Stats::acquireFailures);
        gauge(registry, "kazahana.leases", Generator.Stats::leases);
        gauge(registry, "kazahana.lease.age.ms", Generator.Stats::leaseAgeMs);
        gauge(registry, "kazahana.ahead.ms", Generator.Stats::aheadMs);
    }

    private void ids(MeterRegistry registry, String kind, ToLongFunction<Generator.Stats> value) {
        FunctionCounter.builder("kazahana.ids", factory, f -> read(f, value)).tag("kind", kind).register(registry);
    }

    private void counter(MeterRegistry registry, String name, ToLongFunction<Generator.Stats> value) {
        FunctionCounter.builder(name, factory, f -> read(f, value)).register(registry);
    }

    private void gauge(MeterRegistry registry, String name, ToLongFunction<Generator.Stats> value) {
        Gauge.builder(name, factory, f -> read(f, value)).register(registry);
    }

    private static double read(TsidFactory factory, ToLongFunction<Generator.Stats> value) {
        try {
            return value.applyAsLong(factory.generator().stats());
        } catch (KazahanaException e) {
            return Double.NaN; // it is closed
        }
    }
}
