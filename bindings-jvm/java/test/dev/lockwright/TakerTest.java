package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * In which thread futures are completed where the program names none. On a busy machine a thread may be replaced that only had to wait for
 * its turn: what is to be tested then is done again, after the second in which the common pool completes.
 */
@Timeout(30)
class TakerTest {
  private final Client client = Lockwright.connect(Places.memory());

  @AfterEach
  void close() {
    client.close();
  }

  /** What comes of {@code completion} where it is not this thread's. */
  private <T> CompletableFuture<T> completed(Function<Guard, T> completion) {
    Lock lock = client.lock("x");
    CompletableFuture<T> completed;
    try (Guard held = lock.acquire()) {
      completed = lock.acquireAsync().thenApply(guard -> {
        guard.release();
        return completion.apply(guard);
      });
    }
    return completed;
  }

  private static boolean isTaker() {
    return Thread.currentThread() instanceof Taker;
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException interrupt) {
      throw new IllegalStateException(interrupt);
    }
  }

  private Taker taker() throws Exception {
    while (true) {
      if (completed(guard -> Thread.currentThread()).get() instanceof Taker taker) {
        return taker;
      }
      TimeUnit.MILLISECONDS.sleep(10);
    }
  }

  @Test
  void aCompletionRunsInTheThreadThatHasTheResultAndThatEndsWithTheClient() throws Exception {
    taker();
    List<Thread> takers = Thread.getAllStackTraces().keySet().stream().filter(Taker.class::isInstance).toList();
    client.close();
    for (Thread thread : takers) {
      while (thread.isAlive()) {
        // A client that another test left open.
        System.gc();
        thread.join(100);
      }
    }
  }

  @Test
  void aCompletionThatDoesNotComeBackHoldsNobodyUp() throws Exception {
    CountDownLatch others = new CountDownLatch(1);
    CompletableFuture<Thread> blocked;
    CompletableFuture<Boolean> began;
    do {
      taker();
      CompletableFuture<Boolean> begins = began = new CompletableFuture<>();
      blocked = completed(guard -> {
        begins.complete(isTaker());
        if (isTaker()) {
          await(others);
        }
        // Whoever takes the mail now begins it.
        client.lock("y").acquireAsync().join().release();
        return Thread.currentThread();
      });
    } while (!began.get());
    assertInstanceOf(ForkJoinWorkerThread.class, completed(guard -> Thread.currentThread()).get());
    for (int i = 0; i < 10; i++) {
      completed(guard -> null).get();
    }
    others.countDown();
    Thread replaced = blocked.get();
    // It takes no mail any more.
    replaced.join();
    assertNotSame(replaced, taker());
  }

  /** In the thread that has the result, as {@code Runnable::run} means it. */
  @Test
  void aCallbackThatClosesItsClientWhereItIsToldHoldsNobodyUp() throws Exception {
    for (boolean ofLoss : new boolean[] {true, false}) {
      Client own = Lockwright.connect(Places.memory(), new ConnectOptions().executor(Runnable::run));
      Guard held = own.lock("x").acquire();
      CountDownLatch closed = new CountDownLatch(1);
      Runnable close = () -> {
        own.close();
        closed.countDown();
      };
      if (ofLoss) {
        held.onLost(why -> close.run());
      } else {
        own.lock("x").acquireAsync().thenRun(close);
      }
      own.breakLock("x", held.token());
      completed(guard -> null).get();
      closed.await();
    }
  }

  /** Two that came together: the second may be what the first waits for. */
  @Test
  void whatIsBehindACompletionThatDoesNotComeBackIsCompleted() throws Exception {
    taker();
    List<Guard> held = List.of(client.lock("one").acquire(), client.lock("two").acquire());
    CountDownLatch both = new CountDownLatch(2);
    List<CompletableFuture<Void>> all = held.stream().map(guard -> client.lock(guard.name()).acquireAsync().thenAccept(granted -> {
      both.countDown();
      if (isTaker()) {
        await(both);
      }
    })).toList();
    // The thread that has their results is here meanwhile.
    completed(guard -> {
      held.forEach(Guard::release);
      return null;
    });
    for (CompletableFuture<Void> one : all) {
      one.get();
    }
  }

  @Test
  void manyCompletionsThatAreLongTogetherHoldNobodyUp() throws Exception {
    taker();
    List<Guard> held = IntStream.range(0, 30).mapToObj(i -> client.lock("one of many " + i).acquire()).toList();
    List<CompletableFuture<Thread>> all = held.stream().map(guard -> client.lock(guard.name()).acquireAsync().thenApply(granted -> {
      long began = System.nanoTime();
      while (System.nanoTime() - began < 1_000_000) {
        Thread.onSpinWait();
      }
      return Thread.currentThread();
    })).toList();
    completed(guard -> {
      held.forEach(Guard::release);
      return null;
    });
    assertInstanceOf(ForkJoinWorkerThread.class, all.get(29).get());
  }

  @Test
  void anInterruptOfACompletionsOwnThreadEndsWithIt() throws Exception {
    taker();
    completed(guard -> {
      if (isTaker()) {
        Thread.currentThread().interrupt();
      }
      return null;
    }).get();
    assertFalse(completed(guard -> Thread.currentThread().isInterrupted()).get());
  }
}
