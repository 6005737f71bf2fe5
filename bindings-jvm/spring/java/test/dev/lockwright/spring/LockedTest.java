package dev.lockwright.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.LockException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.aopalliance.intercept.MethodInterceptor;
import org.junit.jupiter.api.Test;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.autoproxy.DefaultAdvisorAutoProxyCreator;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.NameMatchMethodPointcut;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.core.task.TaskExecutor;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** {@link Locked} methods of beans. */
class LockedTest {
  private final ApplicationContextRunner runner = new ApplicationContextRunner()
      .withConfiguration(AutoConfigurations.of(LockwrightAutoConfiguration.class))
      .withPropertyValues("lockwright.url=memory://" + UUID.randomUUID(), "short=20ms");

  record Order(String id) {}

  static class Shop {
    @Locked(name = "order:#{#order.id}")
    public Guard pay(Order order) {
      return CurrentLock.guard();
    }

    @Locked(name = "order:#{#p0}", timeout = "${short}")
    public String impatient(String id) {
      return "paid";
    }

    @Locked(name = "order:#{@suffix}-#{#id}", skipIfTaken = true)
    public Optional<String> once(String id) {
      return Optional.of("paid");
    }

    @Locked(name = "order:1", skipIfTaken = true, timeout = "PT0.02S")
    public String soon() {
      return "paid";
    }

    @Locked(name = "future")
    public CompletableFuture<String> later(CompletableFuture<String> work) {
      CurrentLock.guard();
      return work;
    }

    @Locked(name = "future", skipIfTaken = true)
    public CompletableFuture<Optional<String>> laterOrNot() {
      return CompletableFuture.completedFuture(Optional.of("paid"));
    }

    @Locked(name = "outer")
    public int outer(Shop self, int depth) {
      return depth == 0 ? CurrentLock.guard().depth() : self.outer(self, depth - 1);
    }

    @Locked(name = "lost")
    public void loses(Client client) {
      client.breakLock("lost", CurrentLock.guard().token());
    }

    @Locked(name = "last", atLeastFor = "1h")
    public void atLeast() {}
  }

  @Configuration
  static class Shops {
    @Bean
    Shop shop() {
      return new Shop();
    }

    @Bean
    String suffix() {
      return "s";
    }
  }

  private void inShop(ThrowingShop story) {
    runner.withUserConfiguration(Shops.class).run(context -> story.play(context.getBean(Shop.class), context.getBean(Client.class)));
  }

  private interface ThrowingShop {
    void play(Shop shop, Client client) throws Exception;
  }

  @Test
  void aMethodRunsUnderTheLockOfItsArguments() {
    inShop((shop, client) -> {
      Guard guard = shop.pay(new Order("42"));
      assertThat(guard.name()).isEqualTo("order:42");
      assertThat(guard.isHeld()).isFalse();
      assertThatThrownBy(CurrentLock::guard).isInstanceOf(IllegalStateException.class);
      assertThatThrownBy(() -> shop.pay(new Order(null))).isInstanceOf(IllegalArgumentException.class).hasMessageContaining("is null");
    });
  }

  @Test
  void whoWaitsTooLongIsToldAndWhoSkipsIsNotCalled() {
    inShop((shop, client) -> {
      try (Guard one = client.lock("order:1").acquire(); Guard two = client.lock("order:s-2").acquire()) {
        CompletableFuture<Object> other = CompletableFuture.supplyAsync(() -> {
          assertThatThrownBy(() -> shop.impatient("1")).isInstanceOf(LockException.Timeout.class);
          assertThat(shop.once("2")).isEmpty();
          return shop.soon();
        });
        assertThat(other.get()).isNull();
      }
      assertThat(List.of(shop.impatient("1"), shop.once("2").get(), shop.soon())).containsOnly("paid");
    });
  }

  @Test
  void aFutureHoldsTheLockUntilItIsComplete() {
    inShop((shop, client) -> {
      CompletableFuture<String> work = new CompletableFuture<>();
      CompletableFuture<String> told = shop.later(work);
      assertThat(client.lock("future").tryAcquire()).isNull();
      assertThat(shop.laterOrNot().get()).isEmpty();
      work.complete("done");
      assertThat(told.get()).isEqualTo("done");
      assertThat(shop.laterOrNot().get()).contains("paid");
      assertThatThrownBy(() -> shop.later(CompletableFuture.failedFuture(new IllegalStateException("no"))).join())
          .hasRootCauseMessage("no");
      CompletableFuture<String> slow = new CompletableFuture<>();
      CompletableFuture<String> lost = shop.later(slow);
      client.breakLock("future", client.inspect("future").holder().lastToken());
      slow.complete("done");
      assertThatThrownBy(lost::join).hasCauseInstanceOf(LockException.Lost.class);
    });
  }

  @Test
  void itsOwnThreadMayComeAgain() {
    inShop((shop, client) -> assertThat(shop.outer(shop, 2)).isEqualTo(3));
  }

  @Test
  void aLossIsToldToTheCaller() {
    inShop((shop, client) -> assertThatThrownBy(() -> shop.loses(client)).isInstanceOf(LockException.Lost.class));
  }

  @Test
  void atLeastForKeepsTheLock() {
    inShop((shop, client) -> {
      shop.atLeast();
      assertThat(client.lock("last").tryAcquire()).isNull();
    });
  }

  static class Unnamed {
    @Locked(name = "order:#{#nobody}")
    public void pay(String id) {}
  }

  static class Braceless {
    @Locked(name = "#id")
    public void pay(String id) {}
  }

  static class Final {
    @Locked(name = "x")
    public final void pay() {}
  }

  static class Primitive {
    @Locked(name = "x", skipIfTaken = true)
    public int pay() {
      return 1;
    }
  }

  static class Later {
    @Locked(name = "x")
    public Future<String> pay() {
      return null;
    }
  }

  static class Unit {
    @Locked(name = "x", ttl = "10d")
    public void pay() {}
  }

  static class Syntax {
    @Locked(name = "x#{#id")
    public void pay(String id) {}
  }

  static class Placeholder {
    @Locked(name = "x", timeout = "${nowhere}")
    public void pay() {}
  }

  static class Fair {
    @Locked(name = "x", fair = true)
    public void pay() {}
  }

  private void refused(Class<?> bean, String why, String... properties) {
    runner.withPropertyValues(properties).withBean(bean).run(context -> assertThat(context).getFailure().hasMessageContaining(why));
  }

  @Test
  void whatCannotBeHonouredIsAnErrorAtTheStart() {
    refused(Unnamed.class, "its name has #nobody, but there are only #a0, #id, #p0, #root, #this");
    refused(Braceless.class, "stands in braces: #{#id}");
    refused(Final.class, "private, static or final");
    refused(Primitive.class, "no int to return");
    refused(Later.class, "does not say when its work is over");
    refused(Unit.class, "ttl");
    refused(Syntax.class, "x#{#id");
    refused(Placeholder.class, "nowhere");
    refused(Fair.class, "fair", "lockwright.url=redis://nowhere?layout=string&format=redis-py");
  }

  static class Jobs {
    private final AtomicInteger runs = new AtomicInteger();
    private final CountDownLatch ran = new CountDownLatch(2);

    @Scheduled(fixedDelay = 1)
    @Locked(name = "job", skipIfTaken = true)
    public void run() {
      CurrentLock.guard();
      runs.incrementAndGet();
      ran.countDown();
    }

    /** How often it ran. */
    public int runs() {
      return runs.get();
    }

    /** Waits until it ran twice. */
    public boolean ran() throws InterruptedException {
      return ran.await(10, TimeUnit.SECONDS);
    }
  }

  @Configuration
  @EnableScheduling
  static class Scheduling {
    @Bean
    Jobs jobs() {
      return new Jobs();
    }
  }

  @Test
  void aScheduledJobIsLocked() {
    runner.withUserConfiguration(Scheduling.class).run(context -> {
      Jobs jobs = context.getBean(Jobs.class);
      assertThat(jobs.ran()).isTrue();
      Client client = context.getBean(Client.class);
      try (Guard held = client.lock("job").acquire()) {
        int before = jobs.runs();
        long refused = client.metrics().refused();
        while (client.metrics().refused() < refused + 3) {
          Thread.onSpinWait();
        }
        assertThat(jobs.runs()).isEqualTo(before);
      }
    });
  }

  static class Mails {
    @Async
    @Locked(name = "mail")
    public CompletableFuture<String> send() {
      return CompletableFuture.completedFuture(Thread.currentThread().getName() + " has " + CurrentLock.guard().name());
    }
  }

  @Configuration
  @EnableAsync
  static class Asynchronous {
    @Bean
    Mails mails() {
      return new Mails();
    }

    @Bean
    TaskExecutor taskExecutor() {
      return new SimpleAsyncTaskExecutor("post-");
    }
  }

  @Test
  void anAsynchronousMethodHoldsTheLockWhereItRuns() {
    runner.withUserConfiguration(Asynchronous.class)
        .run(context -> assertThat(context.getBean(Mails.class).send().get()).startsWith("post-").endsWith(" has mail"));
  }

  @Configuration
  static class Transactions {
    /** As Spring registers its own, which transactions come by. */
    @Bean
    static DefaultAdvisorAutoProxyCreator creator() {
      DefaultAdvisorAutoProxyCreator creator = new DefaultAdvisorAutoProxyCreator();
      creator.setOrder(Ordered.HIGHEST_PRECEDENCE);
      creator.setProxyTargetClass(true);
      return creator;
    }

    @Bean
    static Advisor transaction() {
      NameMatchMethodPointcut pays = new NameMatchMethodPointcut();
      pays.addMethodName("pay");
      return new DefaultPointcutAdvisor(pays, (MethodInterceptor) call -> {
        Object result = call.proceed();
        assertThat(CurrentLock.guard().isHeld()).isTrue();
        return result;
      });
    }
  }

  @Test
  void aTransactionEndsBeforeTheLockIsGivenBack() {
    runner.withUserConfiguration(Shops.class, Transactions.class)
        .run(context -> assertThat(context.getBean(Shop.class).pay(new Order("42")).isHeld()).isFalse());
  }
}
