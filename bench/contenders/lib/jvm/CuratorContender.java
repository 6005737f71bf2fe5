import java.net.URI;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/** Curator's InterProcessMutex; all of a process share a session. */
final class CuratorContender {
  private static final int SESSION_MS = 30_000;
  private static final int CONNECT_MS = 10_000;

  /** A client, and where its locks lie. */
  private record Dialled(CuratorFramework client, String root) {
    static Dialled to(String url) {
      URI address = URI.create(url);
      var client = CuratorFrameworkFactory.newClient(address.getAuthority(), SESSION_MS, CONNECT_MS, new RetryNTimes(5, 100));
      client.start();
      return new Dialled(client, address.getPath() + "/curator-");
    }
  }

  public static void main(String[] words) throws Exception {
    var version = Contender.version("Curator", InterProcessMutex.class);
    var library = new Contender.Library<Dialled>(Dialled::to, dialled -> dialled.client().close(), List.of("all"), version);
    Contender.main(
        words,
        new Blocking<>("Curator InterProcessMutex", "peer", List.of("S9", "S9C"), library,
            (dialled, key, task) -> of(new InterProcessMutex(dialled.client(), dialled.root() + key))));
  }

  private static Blocking.Held of(InterProcessMutex mutex) {
    return new Blocking.Held() {
      @Override
      public void acquire() throws Exception {
        mutex.acquire();
      }

      @Override
      public void release() throws Exception {
        mutex.release();
      }
    };
  }
}
