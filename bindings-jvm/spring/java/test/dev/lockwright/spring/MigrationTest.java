package dev.lockwright.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.Lockwright;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.Lock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.LockRegistry;

/** What docs/migration.md says of Spring's registry and of ShedLock: the same locks, before and after. */
class MigrationTest {
  private static final String REDIS = System.getenv("LOCKWRIGHT_TEST_REDIS");

  private final String name = "m" + UUID.randomUUID();
  private LettuceConnectionFactory factory;

  /** Not atomic in the least. */
  private int counter;

  @BeforeEach
  void connect() {
    assumeTrue(REDIS != null);
    URI server = URI.create(REDIS);
    factory = new LettuceConnectionFactory(server.getHost(), server.getPort());
    factory.start();
  }

  @AfterEach
  void disconnect() {
    if (factory != null) {
      factory.destroy();
    }
  }

  private static String url(String options) {
    return "lockwright.url=" + REDIS + (REDIS.contains("?") ? "&" : "?") + options;
  }

  private void count(LockRegistry<?> registry) {
    for (int i = 0; i < 50; i++) {
      Lock lock = registry.obtain("42");
      lock.lock();
      try {
        int next = counter + 1;
        Thread.yield();
        counter = next;
      } finally {
        lock.unlock();
      }
    }
  }

  @Test
  void aRegistryOfSpringsAndOursHaveTheSameLocks() {
    RedisLockRegistry theirs = new RedisLockRegistry(factory, name);
    theirs.setRedisLockType(RedisLockType.PUB_SUB_LOCK);
    new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LockwrightAutoConfiguration.class))
        .withPropertyValues(url("layout=spring&format=pub-sub&prefix=" + name + ":")).run(context -> {
          LockRegistry<?> ours = context.getBean(LockRegistry.class);
          ExecutorService pool = Executors.newFixedThreadPool(4);
          List<Callable<Object>> all = List.of(Executors.callable(() -> count(theirs)), Executors.callable(() -> count(ours)),
              Executors.callable(() -> count(theirs)), Executors.callable(() -> count(ours)));
          for (var done : pool.invokeAll(all)) {
            done.get();
          }
          pool.shutdown();
          assertThat(counter).isEqualTo(200);
          theirs.obtain("43").lock();
          assertThat(ours.obtain("43").tryLock()).isFalse();
          theirs.obtain("43").unlock();
          assertThat(ours.obtain("43").tryLock()).isTrue();
          assertThat(theirs.obtain("43").tryLock()).isFalse();
          ours.obtain("43").unlock();
        });
    theirs.destroy();
  }

  static class Jobs {
    @Locked(name = "${job}", skipIfTaken = true)
    public String run() {
      return "done";
    }
  }

  @Test
  void aJobOfShedLocksAndOursDoNotRunTogether() {
    LockProvider theirs = new RedisLockProvider.Builder(factory).safeUpdate(true).build();
    new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LockwrightAutoConfiguration.class)).withBean(Jobs.class)
        .withPropertyValues(url("layout=string&format=shedlock"), "job=" + name).run(context -> {
          Jobs jobs = context.getBean(Jobs.class);
          Client client = context.getBean(Client.class);
          Optional<SimpleLock> running = theirs.lock(job(name, Duration.ZERO));
          assertThat(running).isPresent();
          assertThat(jobs.run()).isNull();
          running.get().unlock();
          try (Guard ours = client.lock(name).acquire()) {
            assertThat(theirs.lock(job(name, Duration.ZERO))).isEmpty();
          }
          theirs.lock(job(name + "-short", Duration.ofMinutes(9))).get().unlock();
          assertThat(client.lock(name + "-short").tryAcquire()).isNull();
          assertThat(jobs.run()).isEqualTo("done");
        });
  }

  private static LockConfiguration job(String name, Duration atLeastFor) {
    return new LockConfiguration(Instant.now(), name, Duration.ofMinutes(10), atLeastFor);
  }

  static class AtLeast {
    @Locked(name = "x", skipIfTaken = true, atLeastFor = "1m")
    public void run() {}
  }

  @Test
  void aLockOfShedLocksLayoutEndsWithItsJob() {
    new ApplicationContextRunner().withConfiguration(AutoConfigurations.of(LockwrightAutoConfiguration.class)).withBean(AtLeast.class)
        .withPropertyValues(url("layout=string&format=shedlock"))
        .run(context -> assertThat(context).getFailure().hasMessageContaining("leave at_least_for out"));
  }

  @Test
  void theLinesForRedissonWork() throws Exception {
    String url = url("layout=redisson&prefix=" + name + ":").substring("lockwright.url=".length());
    try (Client client = Lockwright.connect(url); Client other = Lockwright.connect(url)) {
      Lock lock = client.reentrantLock("orders");
      lock.lock();
      assertThat(other.lock("orders").tryAcquire()).isNull();
      lock.unlock();
      try (Guard guard = client.lock("orders").fair().ttl("10s").renew(false).acquire("2s")) {
        assertThat(other.reentrantLock("orders").isLocked()).isTrue();
      }
      try (Guard guard = client.lock("fenced").format("fenced").acquireAsync().get()) {
        assertThat(guard.token()).isPositive();
      }
      try (Guard one = client.readWriteLock("page").read().acquire(); Guard two = other.readWriteLock("page").read().acquire()) {
        assertThat(one.isHeld() && two.isHeld()).isTrue();
      }
      try (Guard guard = client.semaphore("tickets", 1).take().acquire()) {
        assertThat(other.semaphore("tickets", 1).tryAcquire()).isFalse();
      }
      Guard held = client.lock("orders").acquire();
      assertThat(other.breakLock("orders", held.token())).isTrue();
    }
  }
}
