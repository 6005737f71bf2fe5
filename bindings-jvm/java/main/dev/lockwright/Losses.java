package dev.lockwright;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Consumer;

/** Who is to be told of the loss of one guard. The guard alone keeps it. */
final class Losses {
  private final Executor executor;
  private List<Consumer<LossReason>> callbacks = new ArrayList<>();
  private CompletableFuture<LossReason> future;

  Losses(Executor executor) {
    this.executor = executor;
  }

  synchronized void add(Consumer<LossReason> callback) {
    if (callbacks != null) {
      callbacks.add(callback);
    }
  }

  synchronized CompletableFuture<LossReason> future() {
    if (future == null) {
      future = new CompletableFuture<>();
    }
    return future;
  }

  /** It was lost. */
  void tell(LossReason why) {
    List<Consumer<LossReason>> all = take();
    CompletableFuture<LossReason> waiting = future();
    run(() -> waiting.complete(why));
    for (Consumer<LossReason> callback : all) {
      run(() -> {
        try {
          callback.accept(why);
        } catch (RuntimeException | Error error) {
          Log.LOGGER.log(System.Logger.Level.ERROR, "a callback of onLost failed", error);
        }
      });
    }
  }

  /** It will not be: it was given back. */
  void over() {
    take();
    CompletableFuture<LossReason> waiting;
    synchronized (this) {
      waiting = future;
    }
    if (waiting != null) {
      run(() -> waiting.cancel(false));
    }
  }

  private synchronized List<Consumer<LossReason>> take() {
    List<Consumer<LossReason>> all = callbacks == null ? List.of() : callbacks;
    callbacks = null;
    return all;
  }

  private void run(Runnable work) {
    try {
      executor.execute(work);
    } catch (RejectedExecutionException error) {
      work.run();
    }
  }
}
