package dev.lockwright.spring;

import dev.lockwright.Client;
import dev.lockwright.Histogram;
import dev.lockwright.LossReason;
import dev.lockwright.Metrics;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.TimeGauge;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import java.util.concurrent.TimeUnit;

/** The figures of a client, as meters called {@code lockwright.*}; {@code docs/observability.md} says what each counts. */
final class LockwrightMetrics implements MeterBinder {
  private final Client client;

  LockwrightMetrics(Client client) {
    this.client = client;
  }

  @Override
  public void bindTo(MeterRegistry registry) {
    gauge(registry, "held", Metrics::held);
    gauge(registry, "waiting", Metrics::waiting);
    counter(registry, "acquired", Metrics::acquired);
    counter(registry, "reentered", Metrics::reentered);
    counter(registry, "hand.offs", Metrics::handOffs);
    counter(registry, "contended", Metrics::contended);
    counter(registry, "refused", Metrics::refused);
    counter(registry, "timeouts", Metrics::timeouts);
    counter(registry, "cancelled", Metrics::cancelled);
    counter(registry, "failed", Metrics::failed);
    counter(registry, "renewals", Metrics::renewals);
    counter(registry, "renewal.failures", Metrics::renewalFailures);
    counter(registry, "requests", Metrics::requests);
    counter(registry, "round.trips", Metrics::roundTrips);
    counter(registry, "reconnects", Metrics::reconnects);
    for (LossReason reason : LossReason.values()) {
      FunctionCounter.builder("lockwright.lost", client, of -> of.metrics().lost().getOrDefault(reason, 0L))
          .tag("reason", reason.code()).register(registry);
    }
    timer(registry, "wait", Metrics::waitTimes);
    timer(registry, "hold", Metrics::holdTimes);
  }

  private void gauge(MeterRegistry registry, String name, ToLongFunction<Metrics> figure) {
    Gauge.builder("lockwright." + name, client, of -> figure.applyAsLong(of.metrics())).register(registry);
  }

  private void counter(MeterRegistry registry, String name, ToLongFunction<Metrics> figure) {
    FunctionCounter.builder("lockwright." + name, client, of -> figure.applyAsLong(of.metrics())).register(registry);
  }

  private void timer(MeterRegistry registry, String name, Function<Metrics, Histogram> times) {
    FunctionTimer.builder("lockwright." + name, client, of -> times.apply(of.metrics()).count(),
        of -> times.apply(of.metrics()).sum().toNanos(), TimeUnit.NANOSECONDS).register(registry);
    TimeGauge.builder("lockwright." + name + ".max", client, TimeUnit.NANOSECONDS,
        of -> times.apply(of.metrics()).max().toNanos()).register(registry);
  }
}
