import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Two shops over one folder under load; one of them is killed in the middle of it, and another one takes its place.
 * {@code java Verdict.java shop.jar redis://localhost}
 */
public class Verdict {
  private static final int ORDERS = 600;
  private static final int BUYERS = 8;
  private static final HttpClient HTTP = HttpClient.newHttpClient();
  private static final Pattern PORT = Pattern.compile("started on port (\\d+)");

  /** A shop that runs. */
  private static final class Instance {
    private final Process process;
    private final CompletableFuture<String> address = new CompletableFuture<>();
    private final ConcurrentLinkedQueue<String> said = new ConcurrentLinkedQueue<>();

    Instance(String jar, String url, Path folder) throws IOException {
      String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
      process = new ProcessBuilder(java, "-XX:TieredStopAtLevel=1", "-jar", jar, "--server.port=0", "--shop.folder=" + folder,
          "--lockwright.url=" + url).redirectErrorStream(true).start();
      Thread reads = new Thread(this::read);
      reads.setDaemon(true);
      reads.start();
    }

    private void read() {
      try (BufferedReader lines = process.inputReader()) {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          said.add(line);
          Matcher port = PORT.matcher(line);
          if (port.find()) {
            address.complete("http://127.0.0.1:" + port.group(1));
          }
        }
      } catch (IOException gone) {
        // It was killed.
      }
      address.completeExceptionally(new IllegalStateException("it did not start: " + said));
    }

    HttpResponse<String> ask(String method, String path) throws Exception {
      HttpRequest request = HttpRequest.newBuilder(URI.create(address.join() + path)).method(method, HttpRequest.BodyPublishers.noBody()).build();
      return HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    }

    /** What it said that is no news of the usual kind, once it was asked to stop. */
    List<String> stop() throws Exception {
      process.destroy();
      require(process.waitFor(60, TimeUnit.SECONDS), "a shop did not stop");
      require(process.exitValue() == 143, "a shop ended with " + process.exitValue());
      return said.stream().filter(line -> line.contains(" WARN ") || line.contains(" ERROR ")).toList();
    }
  }

  private static void require(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalStateException(otherwise);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path folder = Files.createTempDirectory("shop");
    String url = arguments[1] + (arguments[1].contains("?") ? "&" : "?") + "ttl=2s&prefix=" + folder.getFileName() + ":";
    List<Instance> shops = new CopyOnWriteArrayList<>();
    try {
      long began = System.nanoTime();
      shops.add(new Instance(arguments[0], url, folder));
      shops.add(new Instance(arguments[0], url, folder));
      for (Instance shop : shops) {
        HttpResponse<String> health = shop.ask("GET", "/actuator/health");
        require(health.statusCode() == 200 && health.body().contains("\"lockwright\""), "a shop is not well: " + health.body());
      }
      Set<Long> numbers = ConcurrentHashMap.newKeySet();
      AtomicInteger failed = new AtomicInteger();
      CountDownLatch half = new CountDownLatch(ORDERS / 2);
      CountDownLatch done = new CountDownLatch(ORDERS);
      List<Thread> buyers = new ArrayList<>();
      for (int i = 0; i < BUYERS; i++) {
        int first = i;
        buyers.add(new Thread(() -> buy(shops, first, numbers, failed, half, done)));
      }
      buyers.forEach(Thread::start);
      half.await();
      shops.get(0).process.destroyForcibly().waitFor();
      shops.set(0, new Instance(arguments[0], url, folder));
      done.await();
      for (Thread buyer : buyers) {
        buyer.join();
      }
      long sold = Long.parseLong(Files.readString(folder.resolve("item")));
      shops.get(0).address.join();
      List<String> warned = new ArrayList<>();
      for (Instance shop : shops) {
        warned.addAll(shop.stop());
      }
      long jobs = Long.parseLong(Files.readString(folder.resolve("jobs")));
      long seconds = (System.nanoTime() - began) / 1_000_000_000;
      System.out.printf("%d orders had a number of their own, %d were written, %d were cut off by the kill; %d jobs in %d s%n",
          numbers.size(), sold, failed.get(), jobs, seconds);
      require(sold >= numbers.size() && sold <= numbers.size() + failed.get(), "the sum is wrong");
      require(jobs >= 1 && jobs <= seconds + 1, "the job was done too often");
      require(warned.isEmpty(), "the shops warned: " + warned);
    } finally {
      shops.forEach(shop -> shop.process.destroyForcibly());
    }
  }

  private static void buy(List<Instance> shops, int first, Set<Long> numbers, AtomicInteger failed, CountDownLatch half, CountDownLatch done) {
    int at = first;
    while (done.getCount() > 0) {
      try {
        HttpResponse<String> answer = shops.get(at % shops.size()).ask("POST", "/orders/item");
        require(answer.statusCode() == 200, "an order was refused: " + answer.body());
        if (!numbers.add(Long.parseLong(answer.body()))) {
          System.out.println("two orders have the number " + answer.body());
          System.exit(1);
        }
        half.countDown();
        done.countDown();
      } catch (IOException cut) {
        // The shop was killed: the order may have been written, or not.
        failed.incrementAndGet();
        at++;
      } catch (Exception error) {
        error.printStackTrace();
        System.exit(1);
      }
    }
  }
}
