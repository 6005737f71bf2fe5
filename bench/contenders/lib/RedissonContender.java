import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The protocol of bench/README.md for Redisson's RLock, and its fair lock where that is the name. */
final class RedissonContender {
  private static final String PLAIN = "Redisson RLock";
  private static final String FAIR = "Redisson RFairLock";

  public static void main(String[] args) throws Exception {
    if (args[0].equals("list")) {
      offer(PLAIN, List.of("S1", "S5"));
      offer(FAIR, List.of("S5"));
      return;
    }
    Config config = new Config();
    config.useSingleServer().setAddress(args[2]);
    RedissonClient client = Redisson.create(config);
    boolean fair = args[1].equals(FAIR);
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      if (words[0].equals("pairs")) {
        System.out.println(new Gson().toJson(pairs(client.getLock("bench:free"), Integer.parseInt(words[1]))));
      } else {
        crowd(client, fair, Integer.parseInt(words[1]), words[2].equals("own"), in);
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

  private static List<Long> pairs(RLock lock, int count) {
    List<Long> took = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      long began = System.nanoTime();
      lock.lock();
      lock.unlock();
      took.add(System.nanoTime() - began);
    }
    return took;
  }

  private static RLock lock(RedissonClient client, boolean fair, String name) {
    return fair ? client.getFairLock(name) : client.getLock(name);
  }

  private static volatile boolean stopped;

  private static void crowd(RedissonClient client, boolean fair, int tasks, boolean own, BufferedReader in) throws Exception {
    // Connections are dialled and scripts loaded.
    pairs(client.getLock("bench:free"), 1);
    stopped = false;
    CountDownLatch go = new CountDownLatch(1);
    List<Thread> threads = new ArrayList<>();
    List<Map<String, Object>> tallies = new ArrayList<>();
    for (int task = 0; task < tasks; task++) {
      String name = own ? "bench:" + ProcessHandle.current().pid() + ":" + task : "bench:one";
      threads.add(new Thread(() -> {
        Map<String, Object> tally = turns(lock(client, fair, name), go);
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

  private static Map<String, Object> turns(RLock lock, CountDownLatch go) {
    List<Long> took = new ArrayList<>();
    long acquired = 0;
    try {
      go.await();
    } catch (InterruptedException never) {
      return Map.of();
    }
    while (!stopped) {
      long began = System.nanoTime();
      lock.lock();
      took.add(System.nanoTime() - began);
      acquired += stopped ? 0 : 1;
      lock.unlock();
    }
    return Map.of("acquired", acquired, "ns", took);
  }
}
