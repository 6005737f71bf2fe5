package dev.lockwright;

import java.lang.ref.Cleaner;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Function;

/** What the native library keeps for an object of ours, which asks it something; forgotten when that is collected. */
final class Handle {
  static final Cleaner CLEANER = Cleaner.create();

  final long number;

  Handle(long number) {
    this.number = number;
    CLEANER.register(this, () -> new Request(Verb.FORGET, number).call());
  }

  private Request request(Verb verb, String name, long owner) {
    return new Request(verb, this).word(name).number(owner);
  }

  /** An operation of that name whose arguments are still to be written. */
  Call call(String name) {
    return call(name, 0);
  }

  /** The same by an owner. */
  Call call(String name, long owner) {
    return new Call(name, request(Threads.isVirtual() ? Verb.JOB : Verb.HERE, name, owner));
  }

  /** The same as a job, whoever asks. */
  Call job(String name, long owner) {
    return new Call(name, request(Verb.JOB, name, owner));
  }

  /** An operation that is asked. */
  static final class Call {
    private final String name;
    private final Request request;

    private Call(String name, Request request) {
      this.name = name;
      this.request = request;
    }

    /** A time limit; the handle's own where it is null. */
    Call limit(Object limit) {
      request.optional(limit, span -> request.span(name, "timeout", span));
      return this;
    }

    Call span(String operation, String what, Object span) {
      request.span(operation, what, span);
      return this;
    }

    Call text(String operation, String what, String text) {
      request.text(operation, what, text);
      return this;
    }

    Call number(long number) {
      request.number(number);
      return this;
    }

    Call count(String operation, String what, int count) {
      request.count(Request.whole(operation, what, count));
      return this;
    }

    /** What comes of it, whatever interrupts. */
    Object get() {
      try {
        return settled(false);
      } catch (InterruptedException impossible) {
        throw new IllegalStateException(impossible);
      }
    }

    /** What comes of it; failures are thrown, an interrupt gives it up. */
    Object getInterruptibly() throws InterruptedException {
      return settled(true);
    }

    private Object settled(boolean mayInterrupt) throws InterruptedException {
      Object outcome = request.ask();
      if (outcome instanceof Reply.Waits waits) {
        outcome = Parked.await(waits, mayInterrupt);
      } else if (outcome instanceof Reply.Pending pending) {
        Job<Object> job = Job.of(pending, unwanted -> Guard.giveBack(unwanted));
        outcome = mayInterrupt ? job.awaitInterruptibly() : job.await();
      }
      return Reply.checked(outcome);
    }

    /** The same as a future. */
    <T> Job<T> begin(Executor executor, Function<Object, T> read, java.util.function.Consumer<T> giveBack) {
      return Job.begin(executor, request, read, giveBack);
    }

    /** The same, where {@code read} is asked of a failure, too. */
    <T> Job<T> attempt(Executor executor, Function<Object, T> read, java.util.function.Consumer<T> giveBack) {
      return Job.attempt(executor, request, read, giveBack);
    }
  }

  @SuppressWarnings("unchecked")
  static List<Object> list(Object told) {
    return (List<Object>) told;
  }
}
