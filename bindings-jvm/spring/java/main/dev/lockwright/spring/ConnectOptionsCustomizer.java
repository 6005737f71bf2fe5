package dev.lockwright.spring;

import dev.lockwright.ConnectOptions;

/** A bean that sets what no property says: an executor, or credentials that change. */
@FunctionalInterface
public interface ConnectOptionsCustomizer {
  /**
   * Changes the options of the client.
   *
   * @param options as the properties have them
   */
  void customize(ConnectOptions options);
}
