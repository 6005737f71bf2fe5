import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** A contender whose tasks are threads. */
abstract class Blocking extends Contender {
  Blocking(String name, String role, List<String> rows, String... requests) {
    super(name, role, rows, requests);
  }

  /** What a task acquires and releases. */
  interface Held {
    void acquire() throws Exception;

    void release() throws Exception;
  }

  /** For the task of that number among those that use {@code key}. */
  abstract Held held(String key, int task);

  private Held free;

  @Override
  List<Long> pairs(int count) throws Exception {
    free = free != null ? free : held("bench:free", Integer.MAX_VALUE);
    List<Long> took = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      long began = System.nanoTime();
      free.acquire();
      free.release();
      took.add(System.nanoTime() - began);
    }
    return took;
  }

  @Override
  void cold() throws Exception {
    Held held = held("bench:cold", Integer.MAX_VALUE);
    held.acquire();
    say("held");
    held.release();
  }

  @Override
  Crowd crowd(List<String> keys) {
    CountDownLatch begin = new CountDownLatch(1);
    ExecutorService threads = Executors.newFixedThreadPool(keys.size());
    List<Future<?>> tasks = new ArrayList<>();
    for (int task = 0; task < keys.size(); task++) {
      Held held = held(keys.get(task), task);
      Tally tally = tally(task);
      tasks.add(threads.submit(() -> {
        begin.await();
        while (goesOn.getAsBoolean()) {
          long began = System.nanoTime();
          held.acquire();
          tally.took(began, goesOn.getAsBoolean());
          held.release();
        }
        return null;
      }));
    }
    return new Crowd() {
      @Override
      public void go() {
        begin.countDown();
      }

      @Override
      public void join() throws Exception {
        for (Future<?> task : tasks) {
          task.get();
        }
        threads.shutdown();
      }
    };
  }
}
