package shop;

import dev.lockwright.LockException;
import dev.lockwright.spring.Locked;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.http.HttpStatus;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/** A shop that may run any number of times over one folder: no number is given to two orders, and one of them does the job. */
@SpringBootApplication
@EnableScheduling
public class Shop {
  public static void main(String[] arguments) {
    SpringApplication.run(Shop.class, arguments);
  }

  /** Numbers in files. They are not atomic in the least: only a lock makes them right. */
  @Component
  static class Counters {
    private final Path folder;

    Counters(@Value("${shop.folder}") Path folder) {
      this.folder = folder;
    }

    @Locked(name = "order:#{#item}", timeout = "20s")
    public long order(String item) throws IOException {
      return next(item);
    }

    private long next(String name) throws IOException {
      Path file = folder.resolve(name);
      long next = read(file) + 1;
      // A process that dies leaves the old number or the new one.
      Path written = Files.createTempFile(folder, name, ".new");
      Files.writeString(written, Long.toString(next));
      Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
      return next;
    }

    private static long read(Path file) throws IOException {
      try {
        return Long.parseLong(Files.readString(file));
      } catch (NoSuchFileException none) {
        return 0;
      }
    }

    /** Once a second, whoever does it. */
    @Scheduled(fixedDelay = 100)
    @Locked(name = "job", skipIfTaken = true, atLeastFor = "1s")
    public void job() throws IOException {
      next("jobs");
    }
  }

  @RestController
  static class Orders {
    private final Counters counters;

    Orders(Counters counters) {
      this.counters = counters;
    }

    /** The number of an order. */
    @PostMapping("/orders/{item}")
    long order(@PathVariable String item) throws IOException {
      return counters.order(item);
    }

    @ExceptionHandler(LockException.Timeout.class)
    @ResponseStatus(HttpStatus.SERVICE_UNAVAILABLE)
    String busy() {
      return "busy";
    }
  }
}
