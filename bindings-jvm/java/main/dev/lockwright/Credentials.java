package dev.lockwright;

import java.util.Objects;
import java.util.concurrent.ForkJoinPool;
import java.util.function.Supplier;

/**
 * A user and a password, for a store that asks for them.
 *
 * @param user the user; may be empty
 * @param password the password, which nothing here shows
 */
public record Credentials(String user, String password) {
  /** Neither may be null. */
  public Credentials {
    Objects.requireNonNull(user, "user");
    Objects.requireNonNull(password, "password");
  }

  @Override
  public String toString() {
    return "Credentials[user=" + user + "]";
  }

  /** Where they come from, and what runs it: it may take long. */
  record Source(Supplier<Credentials> supplier, Errands executor) {
    Source {
      executor = Objects.requireNonNullElseGet(executor, () -> new Errands(ForkJoinPool.commonPool()));
    }

    void ask(int question) {
      executor.execute(() -> answer(question), () -> give(question, null, "the executor did not take the source of credentials"));
    }

    private void answer(int question) {
      Credentials found = null;
      String why = "the source of credentials gave none";
      try {
        found = supplier.get();
      } catch (RuntimeException | Error error) {
        why = "the source of credentials failed: " + error;
      }
      give(question, found, why);
    }
  }

  static void give(int question, Credentials found, String why) {
    Request request = new Request(Verb.GIVE).count(question);
    if (found == null) {
      request.flag(false).flag(false).word(why);
    } else {
      request.flag(true).text("connect", "user", found.user).flag(true).text("connect", "password", found.password);
    }
    request.call();
  }
}
