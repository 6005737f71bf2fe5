package dev.lockwright;

import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;

/** The executor of a program, which may refuse what it is given, fail at it, or do it in the thread that brings it. */
record Errands(Executor executor) implements Executor {
  /** Has it done, without the executor where that does not take it: whoever waits must not wait for ever. */
  @Override
  public void execute(Runnable work) {
    execute(work, work);
  }

  /** Has it done, or {@code instead} where the executor does not take it. */
  void execute(Runnable work, Runnable instead) {
    Taker.aside(() -> hand(work, instead));
  }

  private void hand(Runnable work, Runnable instead) {
    AtomicBoolean begun = new AtomicBoolean();
    try {
      executor.execute(() -> {
        if (!begun.getAndSet(true)) {
          work.run();
        }
      });
    } catch (Throwable error) {
      // An executor that took it may have failed afterwards.
      if (!begun.getAndSet(true)) {
        instead.run();
      }
      if (!(error instanceof RejectedExecutionException)) {
        Log.LOGGER.log(System.Logger.Level.ERROR, "the executor failed, and what it was given is done without it", error);
      }
    }
  }
}
