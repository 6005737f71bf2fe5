package dev.lockwright.spring;

import dev.lockwright.ConnectOptions;
import dev.lockwright.Credentials;
import dev.lockwright.Requirement;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.function.Consumer;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Where a program's locks are kept. A property that there is not is an error at the start.
 *
 * @param url the address, with options for every lock; the environment's LOCKWRIGHT_URL, else a file of this user's
 * @param prefix put before every lock's name, so that applications can share a store
 * @param connectTimeout limit for making one connection; 2 s
 * @param responseTimeout limit for one reply, after which the request is asked again; 1 s
 * @param storeTimeout how long an operation goes on asking a store that does not answer; 5 s
 * @param ca a PEM file with the authorities that sign the server's certificate
 * @param cert a PEM file with this client's certificate
 * @param key a PEM file with the key of the certificate
 * @param user the user at the store, with a password
 * @param password the password at the store
 * @param require what the program insists on, such as failover-safe; an error at the start unless it is promised
 * @param drain how long the end of the program waits for locks that are held; less than spring.lifecycle.timeout-per-shutdown-phase
 */
@ConfigurationProperties(prefix = "lockwright", ignoreUnknownFields = false)
public record LockwrightProperties(
    String url,
    String prefix,
    Duration connectTimeout,
    Duration responseTimeout,
    Duration storeTimeout,
    Path ca,
    Path cert,
    Path key,
    String user,
    String password,
    @DefaultValue Set<Requirement> require,
    @DefaultValue("20s") Duration drain) {
  ConnectOptions options() {
    ConnectOptions options = new ConnectOptions();
    given(prefix, options::prefix);
    given(connectTimeout, options::connectTimeout);
    given(responseTimeout, options::responseTimeout);
    given(storeTimeout, options::storeTimeout);
    given(ca, options::ca);
    given(cert, options::cert);
    given(key, options::key);
    if (user != null && password == null) {
      throw new IllegalArgumentException("lockwright.user is given without lockwright.password");
    }
    if (password != null) {
      Credentials credentials = new Credentials(user == null ? "" : user, password);
      options.credentials(() -> credentials);
    }
    return options;
  }

  private static <T> void given(T value, Consumer<T> option) {
    if (value != null) {
      option.accept(value);
    }
  }

  @Override
  public String toString() {
    return "LockwrightProperties[prefix=" + prefix + ", require=" + require + ", drain=" + drain + "]";
  }
}
