import com.google.gson.JsonObject;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * jetcd's lock client, which asks the server's lock service. Two holds under one lease exclude nobody, so each has a lease of its
 * own, which is kept alive and revoked with it. A hold's token is its key's creation revision, as ours are.
 */
final class JetcdPeer extends Peer {
  private final Map<String, Client> clients = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    new JetcdPeer().main();
  }

  @Override
  String language() {
    return "jetcd";
  }

  @Override
  void open(String client, String uri) {
    String[] hosts = java.net.URI.create(uri).getAuthority().split(",");
    String[] endpoints = Arrays.stream(hosts).map(host -> "http://" + host).toArray(String[]::new);
    Client opened = Client.builder().endpoints(endpoints).build();
    clients.put(client, opened);
    warm(opened);
  }

  /** A first call takes a new JVM and a new channel seconds: scenarios count on a wait that begins at once. */
  private static void warm(Client client) {
    try {
      long lease = client.getLeaseClient().grant(10).get().getID();
      client.getLockClient().lock(bytes("warm/" + lease), lease).get();
      client.getLeaseClient().revoke(lease).get();
    } catch (Exception error) {
      // Whoever uses the client next is told.
    }
  }

  @Override
  void close() {
    clients.values().forEach(Client::close);
    clients.clear();
  }

  @Override
  Held acquire(JsonObject command, double timeout) throws Exception {
    Client client = clients.get(command.get("client").getAsString());
    long ttl = (long) Math.max(2, Math.ceil(seconds(command, "ttl", TTL)));
    Hold hold = new Hold(client, client.getLeaseClient().grant(ttl).get().getID());
    ByteSequence name = bytes(command.get("lock").getAsString());
    CompletableFuture<io.etcd.jetcd.lock.LockResponse> asked = client.getLockClient().lock(name, hold.lease);
    try {
      hold.key = (timeout < 0 ? asked.get() : asked.get(Math.round(timeout * 1000), TimeUnit.MILLISECONDS)).getKey();
    } catch (TimeoutException late) {
      asked.cancel(true);
      hold.leave();
      return null;
    }
    hold.token = client.getKVClient().get(hold.key).get().getKvs().get(0).getCreateRevision();
    return hold;
  }

  private static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  private static final class Hold extends Held implements StreamObserver<LeaseKeepAliveResponse> {
    private final Client client;
    private final long lease;
    private final CloseableClient alive;
    private ByteSequence key;

    Hold(Client client, long lease) {
      this.client = client;
      this.lease = lease;
      this.alive = client.getLeaseClient().keepAlive(lease, this);
    }

    @Override
    double remaining() {
      try {
        until = now() + 1_000_000_000L * client.getLeaseClient().timeToLive(lease, io.etcd.jetcd.options.LeaseOption.DEFAULT).get().getTTL();
      } catch (Exception over) {
        until = 0;
      }
      return super.remaining();
    }

    void leave() throws Exception {
      alive.close();
      client.getLeaseClient().revoke(lease).get();
    }

    @Override
    boolean release() {
      try {
        boolean held = isHeld();
        client.getLockClient().unlock(key).get();
        leave();
        return held;
      } catch (Exception error) {
        return false;
      }
    }

    @Override
    boolean isHeld() {
      try {
        var own = client.getKVClient().get(key).get().getKvs();
        return own.size() == 1 && own.get(0).getCreateRevision() == token;
      } catch (Exception error) {
        return false;
      }
    }

    @Override
    void extend(double ttl) throws Failed {
      throw new Failed("unsupported", "a lease is as long as it was granted");
    }

    @Override
    public void onNext(LeaseKeepAliveResponse lives) {}

    @Override
    public void onError(Throwable error) {}

    @Override
    public void onCompleted() {}
  }
}
