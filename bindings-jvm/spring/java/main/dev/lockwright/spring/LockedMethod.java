package dev.lockwright.spring;

import dev.lockwright.Client;
import dev.lockwright.Guard;
import dev.lockwright.Lock;
import dev.lockwright.LockException;
import dev.lockwright.Owner;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.function.BiFunction;
import java.util.function.UnaryOperator;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;

/** A {@link Locked} method, whose options were checked. */
final class LockedMethod {
  private final Client client;
  private final ConfigurableBeanFactory beans;
  private final Locked locked;
  private final LockName name;
  private final UnaryOperator<Lock> options;
  private final boolean waits;
  private final boolean staged;
  private final Object skipped;

  /**
   * Sees that everything it says can be honoured.
   *
   * @throws RuntimeException where it cannot
   */
  LockedMethod(Client client, ConfigurableBeanFactory beans, Locked locked, Method method) {
    this.client = client;
    this.beans = beans;
    this.locked = locked;
    checkModifiers(method);
    checkReturn(method);
    name = new LockName(text(locked.name()), method, beans);
    options = options();
    waits = !locked.skipIfTaken() || !text(locked.timeout()).isEmpty();
    staged = CompletionStage.class.isAssignableFrom(method.getReturnType());
    skipped = skipped(method);
    // An option that the store does not have is told here, before anything is sent.
    lock("check").guarantees();
  }

  private static void checkModifiers(Method method) {
    if ((method.getModifiers() & (Modifier.PRIVATE | Modifier.STATIC | Modifier.FINAL)) != 0) {
      throw new IllegalArgumentException("a proxy cannot take a lock for a private, static or final method");
    }
  }

  /** Whether it is over when it returns, or says when it is. */
  private static void checkReturn(Method method) {
    Class<?> type = method.getReturnType();
    boolean told = type == CompletableFuture.class || type == CompletionStage.class;
    boolean later = Future.class.isAssignableFrom(type) || CompletionStage.class.isAssignableFrom(type)
        || KotlinDetector.isSuspendingFunction(method) || ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
    if (later && !told) {
      throw new IllegalArgumentException("a " + type.getName() + " does not say when its work is over; return a CompletableFuture,"
          + " or acquire the lock with Lock.acquireAsync");
    }
  }

  private Object skipped(Method method) {
    Class<?> type = method.getReturnType();
    if (locked.skipIfTaken() && type.isPrimitive() && type != void.class) {
      throw new IllegalArgumentException("a skipped call has no " + type + " to return");
    }
    if (staged) {
      Class<?> result = ResolvableType.forMethodReturnType(method).getGeneric().toClass();
      return CompletableFuture.completedFuture(result == Optional.class ? Optional.empty() : null);
    }
    return type == Optional.class ? Optional.empty() : null;
  }

  private String text(String given) {
    String resolved = beans.resolveEmbeddedValue(given);
    return resolved == null ? "" : resolved;
  }

  /** Gives a lock the options that are said, which are read here and not at each call. */
  private UnaryOperator<Lock> options() {
    UnaryOperator<Lock> timeout = span(locked.timeout(), Lock::timeout, Lock::timeout);
    UnaryOperator<Lock> ttl = span(locked.ttl(), Lock::ttl, Lock::ttl);
    UnaryOperator<Lock> maxHold = span(locked.maxHold(), Lock::maxHold, Lock::maxHold);
    UnaryOperator<Lock> atLeastFor = span(locked.atLeastFor(), Lock::atLeastFor, Lock::atLeastFor);
    UnaryOperator<Lock> fair = lock -> locked.fair() ? lock.fair() : lock;
    UnaryOperator<Lock> rank = lock -> locked.rank() == 0 ? lock : lock.rank(locked.rank());
    return lock -> atLeastFor.apply(maxHold.apply(ttl.apply(timeout.apply(rank.apply(fair.apply(lock))))));
  }

  private UnaryOperator<Lock> span(String given, BiFunction<Lock, String, Lock> units, BiFunction<Lock, Duration, Lock> iso) {
    String said = text(given);
    if (said.isEmpty()) {
      return lock -> lock;
    }
    if (!said.startsWith("P")) {
      return lock -> units.apply(lock, said);
    }
    Duration span = Duration.parse(said);
    return lock -> iso.apply(lock, span);
  }

  private Lock lock(String called) {
    Lock lock = options.apply(client.lock(called));
    // Work that goes on elsewhere is not the calling thread's.
    return staged ? lock.ownedBy(new Owner()) : lock.reentrant(true);
  }

  /** The call, under its lock. */
  Object call(MethodInvocation call) throws Throwable {
    Guard guard = acquire(lock(name.of(call.getThis(), call.getArguments())));
    if (guard == null) {
      return skipped;
    }
    return staged ? untilComplete(guard, call) : untilReturned(guard, call);
  }

  private Guard acquire(Lock lock) {
    if (!waits) {
      return lock.tryAcquire();
    }
    try {
      return lock.acquire();
    } catch (LockException.Timeout taken) {
      if (locked.skipIfTaken()) {
        return null;
      }
      throw taken;
    }
  }

  private static Object untilReturned(Guard guard, MethodInvocation call) throws Throwable {
    try (guard) {
      return CurrentLock.during(guard, call::proceed);
    }
  }

  /** The work may still go on when it returns: then the lock is given back once that is over, beside the thread that ends it. */
  private static Object untilComplete(Guard guard, MethodInvocation call) throws Throwable {
    CompletionStage<?> begun = null;
    try {
      begun = (CompletionStage<?>) CurrentLock.during(guard, call::proceed);
    } finally {
      if (begun == null) {
        guard.close();
      }
    }
    return begun == null ? null : begun.whenCompleteAsync((result, error) -> guard.close());
  }
}
