package dev.lockwright.spring;

import dev.lockwright.ConnectOptions;

/** A bean that sets what no property says: an executor, or credentials that change. */
@FunctionalInterface
public interface ConnectOptionsCustomizer {
  /** Changes the options of the client, which are as the properties have them. */
  void customize(ConnectOptions options);
}
