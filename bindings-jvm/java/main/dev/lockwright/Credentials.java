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
      executor.execute(() -> answer(question), () -> refuse(question, "the executor did not take the source of credentials"));
    }

    private void answer(int question) {
      Request answer;
      try {
        Credentials found = supplier.get();
        answer = found == null ? refusal(question, "the source of credentials gave none") : found.answer(question);
      } catch (Throwable error) {
        // Whatever it is: the connection waits for an answer.
        answer = refusal(question, "the source of credentials failed: " + error);
      }
      answer.call();
    }
  }

  private Request answer(int question) {
    Request answer = new Request(Verb.GIVE).count(question);
    return answer.flag(true).text("connect", "user", user).flag(true).text("connect", "password", password);
  }

  static void refuse(int question, String why) {
    refusal(question, why).call();
  }

  private static Request refusal(int question, String why) {
    return new Request(Verb.GIVE).count(question).flag(false).flag(false).word(why);
  }
}
