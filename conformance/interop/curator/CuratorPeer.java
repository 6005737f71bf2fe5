import com.google.gson.JsonObject;
import java.net.URI;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;

/**
 * Curator's InterProcessMutex, its InterProcessReadWriteLock and InterProcessSemaphoreV2, and its LeaderLatch by the {@code format}
 * {@code leader-latch}. All of them last as long as their client's session, which lasts for the address's ttl without a word.
 */
final class CuratorPeer extends Peer {
  private final Map<String, Connection> clients = new ConcurrentHashMap<>();

  private record Connection(CuratorFramework framework, String root, double ttl) {}

  public static void main(String[] args) throws Exception {
    new CuratorPeer().main();
  }

  @Override
  String language() {
    return "curator";
  }

  private static double ttl(String query) {
    Matcher found = Pattern.compile("(?:^|&)ttl=([0-9.]+)(ms|s)").matcher(query);
    return found.find() ? Double.parseDouble(found.group(1)) / (found.group(2).equals("ms") ? 1000 : 1) : TTL;
  }

  @Override
  void open(String client, String uri) throws Exception {
    URI address = URI.create(uri);
    double ttl = ttl(address.getQuery() == null ? "" : address.getQuery());
    CuratorFramework framework = CuratorFrameworkFactory.newClient(
        address.getAuthority(), (int) (ttl * 1000), 10_000, new RetryNTimes(50, 100));
    framework.start();
    framework.blockUntilConnected();
    clients.put(client, new Connection(framework, address.getPath(), ttl));
  }

  @Override
  void close() {
    clients.values().forEach(client -> client.framework().close());
    clients.clear();
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    Connection client = clients.get(command.get("client").getAsString());
    String path = client.root() + "/" + command.get("lock").getAsString();
    Held got = begin(command, client.framework(), path, Math.round(timeout * 1000));
    if (got != null) {
      got.until = now() + (long) (client.ttl() * 1e9);
    }
    return got;
  }

  @Override
  boolean askBack(JsonObject command) throws Exception {
    Connection client = clients.get(command.get("client").getAsString());
    String path = client.root() + "/" + command.get("lock").getAsString();
    String first = new InterProcessMutex(client.framework(), path).getParticipantNodes().iterator().next();
    Revoker.attemptRevoke(client.framework(), first);
    return true;
  }

  /** Endless below zero. */
  private static Held begin(JsonObject command, CuratorFramework client, String path, long millis) throws Exception {
    if (command.has("permits")) {
      InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, command.get("permits").getAsInt());
      int take = command.has("take") && !command.get("take").isJsonNull() ? command.get("take").getAsInt() : 1;
      Collection<Lease> leases =
          millis < 0 ? semaphore.acquire(take) : semaphore.acquire(take, millis, TimeUnit.MILLISECONDS);
      return leases == null ? null : new Permits(semaphore, leases, client);
    }
    if (command.has("format") && command.get("format").getAsString().equals("leader-latch")) {
      LeaderLatch latch = new LeaderLatch(client, path, "curator");
      latch.start();
      if (millis < 0) {
        latch.await();
      } else if (!latch.await(Math.max(millis, 200), TimeUnit.MILLISECONDS)) {
        latch.close();
        return null;
      }
      return new Leads(latch);
    }
    InterProcessMutex mutex = new InterProcessMutex(client, path);
    Hold hold = new Hold();
    if (command.has("share")) {
      InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
      boolean reads = command.get("share").getAsString().equals("read");
      mutex = reads ? both.readLock() : both.writeLock();
      hold.units = reads ? 1 : 1 << 30;
    }
    hold.mutex = mutex;
    if (is(command, "revocable")) {
      mutex.makeRevocable(asked -> hold.asked.countDown());
    }
    boolean got = in(hold.thread, () -> {
      if (millis < 0) {
        hold.mutex.acquire();
        return true;
      }
      return hold.mutex.acquire(millis, TimeUnit.MILLISECONDS);
    });
    if (!got) {
      hold.thread.shutdown();
    }
    return got ? hold : null;
  }

  /** What lasts as long as its client's session. */
  private abstract static class OfSession extends Held {
    @Override
    void extend(double ttl) throws Failed {
      throw new Failed("unsupported", "it lasts as long as its session");
    }
  }

  private static final class Hold extends OfSession {
    private final CountDownLatch asked = new CountDownLatch(1);
    private InterProcessMutex mutex;

    @Override
    void awaitRequest() throws InterruptedException {
      asked.await();
    }

    @Override
    boolean release() {
      try {
        in(thread, () -> {
          mutex.release();
          return null;
        });
        return true;
      } catch (Exception gone) {
        return false;
      }
    }

    @Override
    boolean isHeld() {
      return mutex.isAcquiredInThisProcess();
    }
  }

  private static final class Permits extends OfSession {
    private final InterProcessSemaphoreV2 semaphore;
    private final Collection<Lease> leases;
    private final CuratorFramework client;

    Permits(InterProcessSemaphoreV2 semaphore, Collection<Lease> leases, CuratorFramework client) {
      this.semaphore = semaphore;
      this.leases = leases;
      this.client = client;
      units = leases.size();
    }

    @Override
    boolean release() {
      semaphore.returnAll(leases);
      return true;
    }

    @Override
    boolean isHeld() {
      return client.getZookeeperClient().isConnected();
    }
  }

  private static final class Leads extends OfSession {
    private final LeaderLatch latch;

    Leads(LeaderLatch latch) {
      this.latch = latch;
    }

    @Override
    boolean release() {
      boolean led = latch.hasLeadership();
      try {
        latch.close();
        return led;
      } catch (java.io.IOException failed) {
        return false;
      }
    }

    @Override
    boolean isHeld() {
      return latch.hasLeadership();
    }
  }
}
