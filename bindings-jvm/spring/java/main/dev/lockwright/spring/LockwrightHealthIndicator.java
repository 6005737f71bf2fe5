package dev.lockwright.spring;

import dev.lockwright.Client;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/** Whether locks can be had, by {@link Client#ping}. */
final class LockwrightHealthIndicator extends AbstractHealthIndicator {
  private final Client client;

  LockwrightHealthIndicator(Client client) {
    super("no locks can be had");
    this.client = client;
  }

  @Override
  protected void doHealthCheck(Health.Builder health) {
    dev.lockwright.Health found = client.ping();
    health.up().withDetail("store", client.address()).withDetail("took", found.took().toString());
    if (found.eviction() != null) {
      health.withDetail("eviction", found.eviction()).withDetail("mayEvict", found.mayEvict());
    }
  }
}
