import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The protocol of bench/README.md for what Redisson has: locks, a read/write lock, semaphores. */
final class RedissonContender {
  private static final String PLAIN = "Redisson RLock";
  private static final String FAIR = "Redisson RFairLock";
  private static final String READ_WRITE = "Redisson RReadWriteLock";
  private static final String SEMAPHORE = "Redisson RSemaphore";
  private static final String EXPIRABLE = "Redisson RPermitExpirableSemaphore";

  /** How many permits there are, and for how long one is leased where it is: as long as a lock. */
  private static final int PERMITS = 4;
  private static final long LEASE_SECONDS = 30;

  /** What a task acquires and releases. */
  private interface Held {
    void acquire() throws InterruptedException;

    void release();
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("list")) {
      offer(PLAIN, List.of("S1", "S5"));
      offer(FAIR, List.of("S5"));
      offer(READ_WRITE, List.of("S1R", "S5R"));
      offer(SEMAPHORE, List.of("S1P", "S5P"));
      offer(EXPIRABLE, List.of("S1P", "S5P"));
      return;
    }
    Config config = new Config();
    config.useSingleServer().setAddress(args[2]);
    RedissonClient client = Redisson.create(config);
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      if (words[0].equals("pairs")) {
        Held free = held(client, args[1], "bench:free", Integer.MAX_VALUE);
        System.out.println(new Gson().toJson(pairs(free, Integer.parseInt(words[1]))));
      } else {
        crowd(client, args[1], Integer.parseInt(words[1]), words[2].equals("own"), in);
      }
    }
    Runtime.getRuntime().halt(0);
  }

  private static void offer(String name, List<String> rows) {
    String version = String.valueOf(Redisson.class.getPackage().getImplementationVersion());
    Map<String, String> versions = Map.of("Redisson", version, "Java", Runtime.version().toString());
    System.out.println(new Gson().toJson(Map.of(
        "name", name, "language", "Java", "rows", rows, "requests", List.of("evalsha", "eval"), "versions", versions)));
  }

  private static List<Long> pairs(Held held, int count) throws InterruptedException {
    List<Long> took = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      long began = System.nanoTime();
      held.acquire();
      held.release();
      took.add(System.nanoTime() - began);
    }
    return took;
  }

  /** What the task of that number acquires; the first one of a crowd writes. A name is one thing only. */
  private static Held held(RedissonClient client, String kind, String name, int task) {
    return switch (kind) {
      case FAIR -> of(client.getFairLock(name));
      case READ_WRITE -> of(readWrite(client.getReadWriteLock(name + ":rw"), task == 0));
      case SEMAPHORE -> of(client.getSemaphore(name + ":permits"));
      case EXPIRABLE -> of(client.getPermitExpirableSemaphore(name + ":leased"));
      default -> of(client.getLock(name));
    };
  }

  private static RLock readWrite(RReadWriteLock lock, boolean writes) {
    return writes ? lock.writeLock() : lock.readLock();
  }

  private static Held of(RLock lock) {
    return new Held() {
      public void acquire() {
        lock.lock();
      }

      public void release() {
        lock.unlock();
      }
    };
  }

  private static Held of(RSemaphore semaphore) {
    semaphore.trySetPermits(PERMITS);
    return new Held() {
      public void acquire() throws InterruptedException {
        semaphore.acquire();
      }

      public void release() {
        semaphore.release();
      }
    };
  }

  private static Held of(RPermitExpirableSemaphore semaphore) {
    semaphore.trySetPermits(PERMITS);
    return new Held() {
      private String permit;

      public void acquire() throws InterruptedException {
        permit = semaphore.acquire(LEASE_SECONDS, TimeUnit.SECONDS);
      }

      public void release() {
        semaphore.release(permit);
      }
    };
  }

  private static volatile boolean stopped;

  private static void crowd(RedissonClient client, String kind, int tasks, boolean own, BufferedReader in) throws Exception {
    // Connections are dialled and scripts loaded.
    pairs(held(client, kind, "bench:free", Integer.MAX_VALUE), 1);
    stopped = false;
    CountDownLatch go = new CountDownLatch(1);
    List<Thread> threads = new ArrayList<>();
    List<Map<String, Object>> tallies = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      String name = own ? "bench:" + ProcessHandle.current().pid() + ":" + task : "bench:one";
      Held held = held(client, kind, name, task);
      threads.add(new Thread(() -> {
        Map<String, Object> tally = turns(held, go);
        synchronized (tallies) {
          tallies.add(tally);
        }
      }));
    }
    threads.forEach(Thread::start);
    System.out.println("ready");
    in.readLine();
    go.countDown();
    in.readLine();
    stopped = true;
    for (Thread thread : threads) {
      thread.join();
    }
    System.out.println(new Gson().toJson(tallies));
  }

  private static Map<String, Object> turns(Held held, CountDownLatch go) {
    List<Long> took = new ArrayList<>();
    long acquired = 0;
    try {
      go.await();
      while (!stopped) {
        long began = System.nanoTime();
        held.acquire();
        took.add(System.nanoTime() - began);
        acquired += stopped ? 0 : 1;
        held.release();
      }
    } catch (InterruptedException never) {
      return Map.of();
    }
    return Map.of("acquired", acquired, "ns", took);
  }
}
