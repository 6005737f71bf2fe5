import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.Lock;
import dev.lockwright.Lockwright;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;

/** The JVM's face: in threads, as a {@code java.util.concurrent.locks.Lock}, and awaited. */
final class LockwrightContender {
  public static void main(String[] words) throws Exception {
    if (words[0].equals("hold")) {
      Duration ttl = Duration.ofSeconds(Long.parseLong(words[4]));
      ManyLocks.hold(words[2], Integer.parseInt(words[3]), ttl, Long.parseLong(words[5]), Integer.parseInt(words[6]));
      return;
    }
    var library = new Contender.Library<Client>(LockwrightContender::connect, Client::close, List.of("eval", "evalsha", "set", "Txn", "Range"), Map.of());
    Contender.main(
        words,
        new Blocking<>("Lockwright Java", "ours",
            List.of("S1", "S1C", "S3", "S4", "S5", "S5C", "S7", "S8", "S8C", "S9", "S9C", "S11", "S12"), library,
            (client, key, task) -> guarded(client.lock(key))),
        new Blocking<>("Lockwright Java, fair", "ours", List.of("S4", "S5"), library,
            (client, key, task) -> guarded(client.lock(key).fair())),
        new Blocking<>("Lockwright Java, reentrantLock", "ours", List.of("S1", "S5"), library,
            (client, key, task) -> Blocking.of(client.reentrantLock(key))),
        new Awaited<>("Lockwright Java, futures", "ours", List.of("S1C", "S2", "S3", "S4", "S5", "S5C", "S7"), library,
            (client, key) -> awaited(client.lock(key))));
  }

  /** To the same servers. Where there are several, the peers have no tokens, and ours do without them. */
  private static Client connect(String url) {
    return Lockwright.connect(url.contains(" ") ? url + "?layout=string&format=redsync&tokens=false" : url);
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

  private static Awaited.Held<Guard> awaited(Lock lock) {
    return new Awaited.Held<>() {
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
