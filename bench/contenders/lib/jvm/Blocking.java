import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.locks.Lock;

/** A contender whose tasks are threads. */
final class Blocking<C> extends Contender<C> {
  private final Use<C> use;

  Blocking(String name, String role, List<String> rows, Library<C> library, Use<C> use) {
    super(name, role, rows, library);
    this.use = use;
  }

  /** What the task of that number, among those that use {@code key}, uses of a client. */
  interface Use<C> {
    Held of(C client, String key, int task);
  }

  /** What a task acquires and releases. */
  interface Held {
    void acquire() throws Exception;

    void release() throws Exception;
  }

  /** A thread's own lock. */
  static Held of(Lock lock) {
    return new Held() {
      @Override
      public void acquire() {
        lock.lock();
      }

      @Override
      public void release() {
        lock.unlock();
      }
    };
  }

  private Held free;

  private Held held(String key, int task) {
    return use.of(client(), key, task);
  }

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
