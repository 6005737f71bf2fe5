package dev.lockwright;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** How a client reaches its store. What the address says goes before what is said here. */
public final class ConnectOptions {
  final Map<String, Object> options = new LinkedHashMap<>();
  Supplier<Credentials> credentials;
  /** Null: that of the library. */
  Executor executor;

  /** All as the address says, else as it says at each option. */
  public ConnectOptions() {}

  private ConnectOptions put(String name, Object value) {
    options.put(name, Objects.requireNonNull(value, name));
    return this;
  }

  /** Put before every lock's name, so that applications can share a store; empty. */
  public ConnectOptions prefix(String prefix) {
    return put("prefix", prefix);
  }

  /** Limit for making one connection; 2 s. */
  public ConnectOptions connectTimeout(Duration limit) {
    return put("connectTimeout", limit);
  }

  /** Limit for one reply, after which the request is asked again; 1 s. */
  public ConnectOptions responseTimeout(Duration limit) {
    return put("responseTimeout", limit);
  }

  /** How long an operation goes on asking a store that does not answer; 5 s. */
  public ConnectOptions storeTimeout(Duration limit) {
    return put("storeTimeout", limit);
  }

  /** A PEM file with the authorities that sign the server's certificate. */
  public ConnectOptions ca(Path file) {
    return put("ca", Objects.requireNonNull(file, "file").toString());
  }

  /** A PEM file with this client's certificate. */
  public ConnectOptions cert(Path file) {
    return put("cert", Objects.requireNonNull(file, "file").toString());
  }

  /** A PEM file with the key of {@link #cert}. */
  public ConnectOptions key(Path file) {
    return put("key", Objects.requireNonNull(file, "file").toString());
  }

  /**
   * Gives user and password, and is asked at every new connection, by the executor, else by the common pool. It has
   * {@link #connectTimeout} to answer. Where it throws, what needed the connection fails with {@code auth}.
   */
  public ConnectOptions credentials(Supplier<Credentials> source) {
    credentials = Objects.requireNonNull(source, "source");
    return this;
  }

  /**
   * Completes what methods ending in {@code Async} return, and runs callbacks. Where none is named, the library's thread that has the result
   * does, which suits what is short; as long as completions take milliseconds, the common pool. What the executor refuses, or fails to take,
   * is done without it.
   */
  public ConnectOptions executor(Executor completes) {
    executor = Objects.requireNonNull(completes, "executor");
    return this;
  }
}
