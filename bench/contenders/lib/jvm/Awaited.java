import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/** A contender whose tasks are chains of futures. */
final class Awaited<C, G> extends Contender<C> {
  private final BiFunction<C, String, Held<G>> use;

  Awaited(String name, String role, List<String> rows, Library<C> library, BiFunction<C, String, Held<G>> use) {
    super(name, role, rows, library);
    this.use = use;
  }

  /** What a task acquires and releases. */
  interface Held<G> {
    CompletionStage<G> acquire();

    CompletionStage<?> release(G got);
  }

  private Held<G> free;

  private Held<G> held(String key) {
    return use.apply(client(), key);
  }

  @Override
  List<Long> pairs(int count) {
    free = free != null ? free : held("bench:free");
    List<Long> took = new ArrayList<>(count);
    Supplier<CompletionStage<?>> pair = () -> {
      long began = System.nanoTime();
      return free.acquire().thenCompose(free::release).thenAccept(done -> took.add(System.nanoTime() - began));
    };
    again(pair, () -> took.size() < count).join();
    return took;
  }

  @Override
  void cold() {
    Held<G> held = held("bench:cold");
    held.acquire().thenCompose(got -> {
      say("held");
      return held.release(got);
    }).toCompletableFuture().join();
  }

  @Override
  Crowd crowd(List<String> keys) {
    CompletableFuture<Void> begin = new CompletableFuture<>();
    List<CompletableFuture<Void>> tasks = IntStream.range(0, keys.size()).mapToObj(task -> {
      Held<G> held = held(keys.get(task));
      Tally tally = tally(task);
      Supplier<CompletionStage<?>> turn = () -> {
        long began = System.nanoTime();
        return held.acquire().thenCompose(got -> {
          tally.took(began, goesOn.getAsBoolean());
          return held.release(got);
        });
      };
      return begin.thenCompose(none -> again(turn, goesOn));
    }).toList();
    return new Crowd() {
      @Override
      public void go() {
        begin.complete(null);
      }

      @Override
      public void join() {
        tasks.forEach(CompletableFuture::join);
      }
    };
  }

  /** Does {@code work} again and again while {@code more}. */
  private static CompletableFuture<Void> again(Supplier<CompletionStage<?>> work, BooleanSupplier more) {
    CompletableFuture<Void> done = new CompletableFuture<>();
    step(work, more, done);
    return done;
  }

  private static void step(Supplier<CompletionStage<?>> work, BooleanSupplier more, CompletableFuture<Void> done) {
    while (more.getAsBoolean()) {
      CompletableFuture<?> begun = work.get().toCompletableFuture();
      // What is done already is gone on from here, so that the stack does not grow.
      if (!begun.isDone()) {
        begun.whenComplete((result, error) -> {
          if (error != null) {
            done.completeExceptionally(error);
          } else {
            step(work, more, done);
          }
        });
        return;
      }
      begun.join();
    }
    done.complete(null);
  }
}
