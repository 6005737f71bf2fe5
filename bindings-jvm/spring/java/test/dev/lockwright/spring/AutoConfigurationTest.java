package dev.lockwright.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.LockException;
import dev.lockwright.Lockwright;
import dev.lockwright.LossReason;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.SmartLifecycle;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** What there is, and when. */
class AutoConfigurationTest {
  private final ApplicationContextRunner runner = new ApplicationContextRunner()
      .withConfiguration(AutoConfigurations.of(LockwrightAutoConfiguration.class));

  private static String memory() {
    return "lockwright.url=memory://" + UUID.randomUUID();
  }

  @Test
  void aClientIsMadeOfProperties() {
    runner.withPropertyValues(memory(), "lockwright.prefix=shop:", "lockwright.store-timeout=3s", "lockwright.require=fenced,rwlock")
        .run(context -> {
          assertThat(context).hasSingleBean(Client.class).hasSingleBean(LockRegistry.class).hasSingleBean(HealthIndicator.class);
          try (Guard guard = context.getBean(Client.class).lock("x").acquire()) {
            assertThat(guard.token()).isPositive();
          }
        });
  }

  @Test
  void whatCannotBeHonouredIsAnErrorAtTheStart() {
    refused("lockwright.url=nothing://x", "nothing");
    refused("lockwright.pefix=shop:", "pefix");
    refused("lockwright.require=shared", "LockException");
    refused("lockwright.store-timeout=-1s", "LockException");
    refused("lockwright.ca=/nowhere.pem", "nowhere.pem");
    refused("lockwright.user=me", "lockwright.password");
  }

  private void refused(String property, String why) {
    String url = property.contains("url") ? "x=y" : property.contains("ca=") ? "lockwright.url=rediss://nowhere" : memory();
    runner.withPropertyValues(url, property).run(context -> assertThat(context).getFailure().hasStackTraceContaining(why));
  }

  @Test
  void beansOfTheProgramGoFirst() {
    try (Client own = Lockwright.connect("memory://" + UUID.randomUUID())) {
      runner.withBean("own", Client.class, () -> own).run(context -> assertThat(context.getBean(Client.class)).isSameAs(own));
    }
  }

  @Test
  void aCustomizerSaysWhatNoPropertyCan() {
    AtomicReference<Thread> completed = new AtomicReference<>();
    runner.withPropertyValues(memory())
        .withBean(ConnectOptionsCustomizer.class, () -> options -> options.executor(work -> {
          completed.set(Thread.currentThread());
          work.run();
        }))
        .run(context -> {
          Client client = context.getBean(Client.class);
          Guard first = client.lock("x").acquire();
          CompletableFuture<Guard> second = client.lock("x").acquireAsync();
          first.release();
          second.get().release();
          assertThat(completed.get()).isNotNull();
        });
  }

  @Test
  void nothingIsThereForWhatIsNot() {
    runner.withPropertyValues(memory())
        .withClassLoader(new FilteredClassLoader("org.springframework.boot.health.contributor", "io.micrometer", "org.springframework.integration"))
        .run(context -> assertThat(context).hasSingleBean(Client.class).doesNotHaveBean("lockwrightLockRegistry")
            .doesNotHaveBean("lockwrightHealthIndicator").doesNotHaveBean("lockwrightMetrics"));
    runner.withPropertyValues(memory(), "management.health.lockwright.enabled=false")
        .run(context -> assertThat(context).hasSingleBean(Client.class).doesNotHaveBean(HealthIndicator.class));
  }

  @Test
  void healthIsThatOfTheStore() {
    runner.withPropertyValues(memory()).run(context -> {
      var health = context.getBean(HealthIndicator.class).health();
      assertThat(health.getStatus()).isEqualTo(Status.UP);
      assertThat(health.getDetails()).containsKeys("store", "took");
    });
    runner.withPropertyValues("lockwright.url=redis://127.0.0.1:1", "lockwright.store-timeout=50ms", "lockwright.connect-timeout=50ms")
        .run(context -> {
          var health = context.getBean(HealthIndicator.class).health();
          assertThat(health.getStatus()).isEqualTo(Status.DOWN);
          assertThat(health.getDetails().get("error").toString()).contains("unavailable");
        });
  }

  @Test
  void figuresAreMeters() {
    runner.withPropertyValues(memory()).run(context -> {
      MeterRegistry registry = new SimpleMeterRegistry();
      context.getBean(MeterBinder.class).bindTo(registry);
      Client client = context.getBean(Client.class);
      try (Guard guard = client.lock("x").acquire()) {
        assertThat(registry.get("lockwright.held").gauge().value()).isEqualTo(1);
        assertThatThrownBy(() -> client.lock("x").acquire("1ms")).isInstanceOf(LockException.Timeout.class);
      }
      assertThat(registry.get("lockwright.acquired").functionCounter().count()).isEqualTo(1);
      assertThat(registry.get("lockwright.timeouts").functionCounter().count()).isEqualTo(1);
      assertThat(registry.get("lockwright.hold").functionTimer().count()).isEqualTo(1);
      assertThat(registry.get("lockwright.hold.max").timeGauge().value(TimeUnit.MILLISECONDS)).isGreaterThanOrEqualTo(1);
      assertThat(registry.get("lockwright.lost").tag("reason", "broken").functionCounter().count()).isZero();
    });
  }

  @Test
  void theRegistryHasTheLocksOfTheClient() {
    runner.withPropertyValues(memory()).run(context -> {
      LockwrightLockRegistry registry = context.getBean(LockwrightLockRegistry.class);
      Client client = context.getBean(Client.class);
      DistributedLock lock = registry.obtain("x");
      lock.lock(Duration.ofSeconds(10));
      assertThat(registry.obtain("x").tryLock(Duration.ZERO, Duration.ofSeconds(10))).isTrue();
      assertThat(client.reentrantLock("x").getHoldCount()).isEqualTo(2);
      registry.renewLock("x");
      registry.renewLock("x", Duration.ofMinutes(5));
      assertThat(client.reentrantLock("x").guard().remaining()).isGreaterThan(Duration.ofMinutes(4));
      assertThat(CompletableFuture.supplyAsync(() -> registry.obtain("x").tryLock()).get()).isFalse();
      lock.unlock();
      lock.unlock();
      assertThatThrownBy(lock::unlock).isInstanceOf(IllegalMonitorStateException.class);
      assertThatThrownBy(() -> registry.renewLock("x")).isInstanceOf(IllegalStateException.class);
      assertThatThrownBy(() -> registry.obtain(new Object())).isInstanceOf(IllegalArgumentException.class);
      assertThat(registry.<String, RuntimeException>executeLocked(UUID.randomUUID(), () -> "done")).isEqualTo("done");
    });
  }

  @Test
  void theEndWaitsForWhatIsHeldAndCloses() {
    AtomicReference<Guard> released = new AtomicReference<>();
    AtomicReference<Guard> left = new AtomicReference<>();
    runner.withPropertyValues(memory(), "lockwright.drain=100ms").run(context -> {
      Client client = context.getBean(Client.class);
      Guard guard = client.lock("x").acquire();
      released.set(guard);
      left.set(client.lock("y").acquire());
      // A scheduler's task that is in the middle of something.
      ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
      scheduler.initialize();
      scheduler.execute(() -> {
        assertThatThrownBy(() -> client.lock("x").acquire()).isInstanceOf(LockException.Closed.class);
        guard.release();
      });
      client.pingAsync().join();
      while (client.metrics().waiting() == 0) {
        Thread.onSpinWait();
      }
    });
    assertThat(released.get().whyLost()).isNull();
    assertThat(left.get().whyLost()).isEqualTo(LossReason.CLOSED);
  }

  @Test
  void whatIsStoppedToStartAgainKeepsItsClient() {
    runner.withPropertyValues(memory()).run(context -> {
      SmartLifecycle lifecycle = context.getBean(LockwrightLifecycle.class);
      assertThat(lifecycle.getPhase()).isLessThan(new ThreadPoolTaskScheduler().getPhase());
      context.getSourceApplicationContext().stop();
      assertThat(lifecycle.isRunning()).isFalse();
      context.getSourceApplicationContext().start();
      assertThat(lifecycle.isRunning()).isTrue();
      context.getBean(Client.class).lock("x").acquire().release();
    });
  }
}
