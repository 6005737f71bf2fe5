import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** jetcd's lock client, which asks the server's lock service. Two under one lease exclude nobody, so each task has its own. */
final class JetcdContender {
  private static final long LEASE_SECONDS = 600;

  public static void main(String[] words) throws Exception {
    var library = new Contender.Library<Client>(
        url -> Client.builder().endpoints("http://" + URI.create(url).getAuthority()).build(), Client::close,
        List.of("Lock", "Unlock"), Contender.version("jetcd", Client.class));
    Contender.main(
        words,
        new Blocking<>("jetcd Lock", "peer", List.of("S8", "S8C"), library, (client, key, task) -> of(client, key)));
  }

  private static Blocking.Held of(Client client, String key) {
    ByteSequence name = ByteSequence.from(key, StandardCharsets.UTF_8);
    long lease = client.getLeaseClient().grant(LEASE_SECONDS).join().getID();
    return new Blocking.Held() {
      private ByteSequence held;

      @Override
      public void acquire() throws Exception {
        held = client.getLockClient().lock(name, lease).get().getKey();
      }

      @Override
      public void release() throws Exception {
        client.getLockClient().unlock(held).get();
      }
    };
  }
}
