import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.Lock;
import dev.lockwright.Lockwright;
import dev.lockwright.ReentrantLock;
import java.util.List;
import java.util.concurrent.CompletionStage;

/** The JVM's face: in threads, as a {@code java.util.concurrent.locks.Lock}, and awaited. */
final class LockwrightContender {
  private static final String[] REQUESTS = {"eval", "evalsha"};

  public static void main(String[] words) throws Exception {
    Contender.main(
        words,
        new Threads("Lockwright Java", List.of("S1", "S3", "S4", "S5", "S12"), (client, key) -> guarded(client.lock(key))),
        new Threads("Lockwright Java, fair", List.of("S4", "S5"), (client, key) -> guarded(client.lock(key).fair())),
        new Threads("Lockwright Java, reentrantLock", List.of("S1", "S5"), (client, key) -> reentrant(client.reentrantLock(key))),
        new Futures());
  }

  /** What a task uses of a client. */
  private interface Use {
    Blocking.Held of(Client client, String key);
  }

  private static final class Threads extends Blocking {
    private final Use use;
    private Client client;

    Threads(String name, List<String> rows, Use use) {
      super(name, "ours", rows, REQUESTS);
      this.use = use;
    }

    @Override
    void connect(String url) {
      client = Lockwright.connect(url);
    }

    @Override
    void disconnect() {
      client.close();
    }

    @Override
    Held held(String key, int task) {
      return use.of(client, key);
    }
  }

  private static Blocking.Held guarded(Lock lock) {
    return new Blocking.Held() {
      private Guard guard;

      @Override
      public void acquire() {
        guard = lock.acquire();
      }

      @Override
      public void release() {
        guard.release();
      }
    };
  }

  private static Blocking.Held reentrant(ReentrantLock lock) {
    return new Blocking.Held() {
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

  private static final class Futures extends Awaited<Guard> {
    private Client client;

    Futures() {
      super("Lockwright Java, futures", "ours", List.of("S2", "S3", "S4", "S5"), REQUESTS);
    }

    @Override
    void connect(String url) {
      client = Lockwright.connect(url);
    }

    @Override
    void disconnect() {
      client.close();
    }

    @Override
    Held<Guard> held(String key) {
      Lock lock = client.lock(key);
      return new Held<>() {
        @Override
        public CompletionStage<Guard> acquire() {
          return lock.acquireAsync();
        }

        @Override
        public CompletionStage<?> release(Guard got) {
          return got.releaseAsync();
        }
      };
    }
  }
}
