package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** In which thread futures are completed where the program names none. */
@Timeout(30)
class TakerTest {
  private final Client client = Lockwright.connect(Places.memory());

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

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException interrupt) {
      throw new IllegalStateException(interrupt);
    }
  }

  /** Not before a second has passed in which the common pool completes. */
  private Taker taker() throws Exception {
    while (true) {
      if (completed(guard -> Thread.currentThread()).get() instanceof Taker taker) {
        return taker;
      }
      TimeUnit.MILLISECONDS.sleep(10);
    }
  }

  @Test
  void aCompletionRunsInTheThreadThatHasTheResult() throws Exception {
    Taker first = taker();
    assertEquals(first, taker());
    client.close();
    first.join();
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread instanceof Taker) {
        thread.join();
      }
    }
  }

  @Test
  void aCompletionThatDoesNotComeBackHoldsNobodyUp() throws Exception {
    Taker first = taker();
    CountDownLatch began = new CountDownLatch(1);
    CountDownLatch others = new CountDownLatch(1);
    CompletableFuture<Thread> blocked = completed(guard -> {
      began.countDown();
      await(others);
      // Whoever takes the mail now begins it.
      client.lock("y").acquireAsync().join().release();
      return Thread.currentThread();
    });
    await(began);
    for (int i = 0; i < 10; i++) {
      assertInstanceOf(ForkJoinWorkerThread.class, completed(guard -> Thread.currentThread()).get());
    }
    others.countDown();
    assertEquals(first, blocked.get());
    // It takes no mail any more.
    first.join();
    assertFalse(first == taker());
    client.close();
  }

  /** Two that came together: the second may be what the first waits for. */
  @Test
  void whatIsBehindACompletionThatDoesNotComeBackIsCompleted() throws Exception {
    taker();
    List<Guard> held = List.of(client.lock("one").acquire(), client.lock("two").acquire());
    CountDownLatch second = new CountDownLatch(2);
    List<CompletableFuture<Void>> both = held.stream().map(guard -> client.lock(guard.name()).acquireAsync().thenAccept(granted -> {
      second.countDown();
      await(second);
    })).toList();
    // The thread that has their results is here meanwhile.
    completed(guard -> {
      held.forEach(Guard::release);
      return null;
    });
    for (CompletableFuture<Void> one : both) {
      one.get();
    }
    client.close();
  }

  @Test
  void anInterruptOfACompletionsOwnThreadEndsWithIt() throws Exception {
    taker();
    completed(guard -> {
      Thread.currentThread().interrupt();
      return null;
    }).get();
    assertFalse(completed(guard -> Thread.currentThread().isInterrupted()).get());
    client.close();
  }
}
