package dev.lockwright;

import java.lang.System.Logger.Level;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ForkJoinPool;

/** Events of the native library, on their way to {@link System.Logger}. One after another, beside the thread that brings them. */
final class Log {
  static final System.Logger LOGGER = System.getLogger("dev.lockwright");

  /** As the library numbers them. */
  private static final Level[] LEVELS = {Level.ERROR, Level.WARNING, Level.INFO, Level.DEBUG, Level.TRACE};

  private static final Queue<Reply.Fields> EVENTS = new ArrayDeque<>();
  private static boolean telling;

  private Log() {}

  /** Has told what the logger takes; it is looked at whenever a client is opened. */
  static void follow() {
    int level = LEVELS.length;
    while (level > 0 && !LOGGER.isLoggable(LEVELS[level - 1])) {
      level--;
    }
    new Request(Verb.LISTEN).octet(level == 0 ? 255 : level - 1).call();
  }

  static void tell(Reply.Fields event) {
    synchronized (EVENTS) {
      EVENTS.add(event);
      if (telling) {
        return;
      }
      telling = true;
    }
    ForkJoinPool.commonPool().execute(Log::tellAll);
  }

  private static void tellAll() {
    while (true) {
      Reply.Fields event;
      synchronized (EVENTS) {
        event = EVENTS.poll();
        if (event == null) {
          telling = false;
          return;
        }
      }
      try {
        LOGGER.log(LEVELS[(int) (long) event.<Long>get("level")], text(event));
      } catch (Throwable ignored) {
        // A handler that fails must not keep the next event from being told.
      }
    }
  }

  /** Target, message and fields; the target is told again by the logger's name in no other place. */
  private static String text(Reply.Fields event) {
    StringBuilder text = new StringBuilder(event.<String>get("message"));
    text.append(" [").append(event.<String>get("target"));
    Map<String, Object> fields = event.<Reply.Fields>get("fields").values();
    fields.forEach((name, value) -> text.append(' ').append(name).append('=').append(value));
    long missed = event.<Long>get("missed");
    if (missed > 0) {
      text.append(" missed=").append(missed);
    }
    return text.append(']').toString();
  }
}
