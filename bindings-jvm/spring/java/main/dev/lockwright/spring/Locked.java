package dev.lockwright.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method that runs under a lock: over all threads and processes one call at a time for each name.
 *
 * <pre>{@code
 * @Locked(name = "order:#{#id}", timeout = "2s")
 * public void pay(String id) { .. }
 *
 * @Scheduled(cron = "0 0 3 * * *")
 * @Locked(name = "nightly", skipIfTaken = true, atLeastFor = "1m")
 * public void nightly() { .. }
 * }</pre>
 *
 * <p>The lock is renewed until the method returns, and for a method that returns a {@code CompletableFuture} until that is complete. It
 * is taken before a transaction of the method's begins, and given back after its end. A call from one's own class goes past it, as past
 * every advice of Spring. The thread that holds the lock may call a method with the same name again.
 *
 * <p>The caller gets {@link dev.lockwright.LockException.Timeout} when others held the lock for {@link #timeout}, and {@link
 * dev.lockwright.LockException.Lost} when it was lost while the method ran. Whatever cannot be honoured is an error when the bean is made.
 *
 * <p>Spans of time are texts such as {@code "500ms"}, {@code "10s"} or {@code "2h"}, or as ISO 8601 has them, {@code "PT10S"};
 * empty means what the client's address says. All texts may have placeholders: {@code "${orders.wait}"}.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface Locked {
  /**
   * The lock's name; what stands in <code>#{..}</code> is an expression (SpEL) over the arguments, by name ({@code #id}; compile with
   * {@code -parameters}) or by place ({@code #p0}), and the beans ({@code @shop}). A part that comes to null is an error.
   */
  String name();

  /** How long to wait for others. */
  String timeout() default "";

  /** How long the lock stays ours when this process dies: 20 ms to 24 hours. */
  String ttl() default "";

  /** How long after the grant renewal ends: for work that must not go on for ever. */
  String maxHold() default "";

  /**
   * How long after the grant the lock stays taken however early the method returns: for jobs that several hosts start by clocks that
   * differ. At most 24 hours.
   */
  String atLeastFor() default "";

  /** First come, first served over all processes. */
  boolean fair() default false;

  /** With {@link #fair}: how urgent the call is, from 0 to 9; higher ranks go first, and every 10 s of waiting count as one rank. */
  int rank() default 0;

  /**
   * Whether the call is left out when somebody else holds the lock, after {@link #timeout} if that is said, else at once. Null is
   * returned then, an empty {@code Optional}, or a future of one of them.
   */
  boolean skipIfTaken() default false;
}
