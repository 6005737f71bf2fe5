package dev.lockwright.spring;

import dev.lockwright.Client;
import java.time.Duration;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ApplicationContextAware;
import org.springframework.context.ApplicationListener;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.event.ContextClosedEvent;

/**
 * The end of the client: after schedulers, listeners and the web server have stopped, it waits until all locks were released, and is
 * closed. A context that is stopped to be started again, as tests do, keeps its client.
 */
final class LockwrightLifecycle implements SmartLifecycle, ApplicationListener<ContextClosedEvent>, ApplicationContextAware {
  /** Before all others at the start, after all others at the end. */
  static final int PHASE = Integer.MIN_VALUE / 2;

  private static final Log LOG = LogFactory.getLog(LockwrightLifecycle.class);

  private final Client client;
  private final Duration limit;
  private ApplicationContext context;
  private volatile boolean running;
  private volatile boolean closing;

  LockwrightLifecycle(Client client, Duration limit) {
    this.client = client;
    this.limit = limit;
  }

  @Override
  public void setApplicationContext(ApplicationContext context) {
    this.context = context;
  }

  @Override
  public void onApplicationEvent(ContextClosedEvent event) {
    closing |= event.getApplicationContext() == context;
  }

  @Override
  public int getPhase() {
    return PHASE;
  }

  @Override
  public boolean isPauseable() {
    return false;
  }

  @Override
  public boolean isRunning() {
    return running;
  }

  @Override
  public void start() {
    running = true;
  }

  @Override
  public void stop() {
    stop(() -> {});
  }

  @Override
  public void stop(Runnable stopped) {
    running = false;
    if (!closing) {
      stopped.run();
      return;
    }
    client.drainAsync(limit).whenComplete((held, error) -> {
      if (error != null || !held.isEmpty()) {
        LOG.warn("after " + limit + (error == null ? " these locks are still held, and are given back now: " + held : ": " + error));
      }
      client.closeAsync().whenComplete((closed, failed) -> stopped.run());
    });
  }
}
