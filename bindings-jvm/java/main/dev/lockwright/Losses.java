package dev.lockwright;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** Who is to be told of the loss of one guard, or that its lock is asked back. The guard alone keeps it. */
final class Losses {
  private final Executor executor;
  private List<Consumer<LossReason>> callbacks = new ArrayList<>();
  private List<Runnable> requests = new ArrayList<>();
  private CompletableFuture<LossReason> future;

  Losses(Executor executor) {
    this.executor = executor;
  }

  synchronized void add(Consumer<LossReason> callback) {
    if (callbacks != null) {
      callbacks.add(callback);
    }
  }

  /** Whether nothing was to be told of requests before. */
  synchronized boolean addRequest(Runnable callback) {
    boolean first = requests.isEmpty();
    requests.add(callback);
    return first;
  }

  /** It is asked back. */
  void asked() {
    List<Runnable> all;
    synchronized (this) {
      all = requests;
      requests = new ArrayList<>();
    }
    for (Runnable callback : all) {
      executor.execute(guarded("onReleaseRequested", callback));
    }
  }

  private static Runnable guarded(String name, Runnable callback) {
    return () -> {
      try {
        callback.run();
      } catch (Throwable error) {
        Log.LOGGER.log(System.Logger.Level.ERROR, "a callback of " + name + " failed", error);
      }
    };
  }

  /** One of the caller's own: what it makes of it, such as a time limit, concerns nobody else. */
  CompletableFuture<LossReason> copy() {
    CompletableFuture<LossReason> copy = new CompletableFuture<>();
    future().whenComplete((why, given) -> {
      if (given == null) {
        copy.complete(why);
      } else {
        copy.cancel(false);
      }
    });
    return copy;
  }

  private synchronized CompletableFuture<LossReason> future() {
    if (future == null) {
      future = new CompletableFuture<>();
    }
    return future;
  }

  /** It was lost. */
  void tell(LossReason why) {
    List<Consumer<LossReason>> all = take();
    CompletableFuture<LossReason> waiting = future();
    executor.execute(() -> waiting.complete(why));
    for (Consumer<LossReason> callback : all) {
      executor.execute(guarded("onLost", () -> callback.accept(why)));
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
      executor.execute(() -> waiting.cancel(false));
    }
  }

  private synchronized List<Consumer<LossReason>> take() {
    List<Consumer<LossReason>> all = callbacks == null ? List.of() : callbacks;
    callbacks = null;
    return all;
  }
}
