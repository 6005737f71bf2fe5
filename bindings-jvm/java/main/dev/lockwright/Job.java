package dev.lockwright;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * What comes of a job of the native library. Whoever else completes it, as {@code cancel}, {@code orTimeout} and {@code completeOnTimeout}
 * do, gives the job up, and what it got is given back.
 */
final class Job<T> extends CompletableFuture<T> {
  /** Completes where the result came, on a thread that must run no code of the program's. */
  private static final Executor DIRECT = Runnable::run;

  private final Executor executor;
  private final Function<Object, T> read;
  private final Consumer<T> giveBack;
  private volatile int number;
  private volatile boolean open;

  private Job(Executor executor, Function<Object, T> read, Consumer<T> giveBack) {
    this.executor = executor;
    this.read = read;
    this.giveBack = giveBack;
  }

  /**
   * Begins what {@code request} asks for.
   *
   * @param executor what completes it; none of the program's where it is null
   * @param read makes a result of the outcome, where that is no failure
   * @param giveBack what to do with a result that nobody wants any more; null where a job goes on though nobody waits for it
   */
  static <T> Job<T> begin(Executor executor, Request request, Function<Object, T> read, Consumer<T> giveBack) {
    return attempt(executor, request, read.compose(Reply::checked), giveBack);
  }

  /** The same, where {@code read} makes a result, or throws, of a failure as well. */
  static <T> Job<T> attempt(Executor executor, Request request, Function<Object, T> read, Consumer<T> giveBack) {
    Job<T> job = new Job<>(executor == null ? DIRECT : executor, read, giveBack);
    Object begun = request.ask();
    if (begun instanceof Reply.Pending pending) {
      job.watch(pending);
    } else {
      // The caller's own thread may complete it: nobody can depend on it yet.
      job.end(begun);
    }
    return job;
  }

  /** The job that was begun already, for a thread that waits for it. */
  static Job<Object> of(Reply.Pending pending, Consumer<Object> giveBack) {
    Job<Object> job = new Job<>(DIRECT, outcome -> outcome, giveBack);
    job.watch(pending);
    return job;
  }

  private void watch(Reply.Pending pending) {
    number = pending.job();
    open = true;
    Agenda.register(number, this);
  }

  /** The job ended with this outcome. */
  void settle(Object outcome) {
    open = false;
    executor.execute(() -> end(outcome));
  }

  private void end(Object outcome) {
    try {
      T result = read.apply(outcome);
      if (!complete(result) && giveBack != null && result != null) {
        giveBack.accept(result);
      }
    } catch (RuntimeException | Error error) {
      completeExceptionally(error);
    }
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    return over(super.cancel(mayInterruptIfRunning));
  }

  @Override
  public boolean complete(T result) {
    return over(super.complete(result));
  }

  @Override
  public boolean completeExceptionally(Throwable error) {
    return over(super.completeExceptionally(error));
  }

  @Override
  public CompletableFuture<T> completeAsync(Supplier<? extends T> supplier, Executor executor) {
    // It completes past the methods that are here.
    whenComplete((result, error) -> over(true));
    return super.completeAsync(supplier, executor);
  }

  @Override
  public void obtrudeValue(T result) {
    super.obtrudeValue(result);
    over(true);
  }

  @Override
  public void obtrudeException(Throwable error) {
    super.obtrudeException(error);
    over(true);
  }

  /** Somebody completed it: nobody wants any more what is still to come of the job. */
  private boolean over(boolean completed) {
    if (completed && giveBack != null && open) {
      Agenda.forget(number);
    }
    return completed;
  }

  /** Waits for it, whatever interrupts. */
  T await() {
    try {
      return join();
    } catch (CompletionException error) {
      throw thrown(error.getCause());
    }
  }

  /**
   * Waits for it. The interrupt status is set where an interrupt came too late to end it.
   *
   * @throws InterruptedException when it was given up for that
   */
  T awaitInterruptibly() throws InterruptedException {
    try {
      return get();
    } catch (ExecutionException error) {
      throw thrown(error.getCause());
    } catch (InterruptedException interrupt) {
      if (Agenda.forget(number)) {
        throw interrupt;
      }
      try {
        return await();
      } finally {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** The same error with the stack of whoever waited. */
  private static RuntimeException thrown(Throwable error) {
    if (error instanceof LockException failed) {
      failed.fillInStackTrace();
      return failed;
    }
    return error instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(error);
  }
}
