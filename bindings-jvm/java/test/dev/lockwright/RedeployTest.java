package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ref.WeakReference;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A servlet container that has an application with our jar in it deployed, taken away and deployed again. */
class RedeployTest {
  /** Of the application: takes locks in the container's threads, by futures as well, and keeps two of them. */
  public static final class Sale extends HttpServlet {
    private static final long serialVersionUID = 1;
    private transient Client client;

    @Override
    public void init() {
      client = Lockwright.connect(getServletContext().getInitParameter("locks"));
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
      try (Guard guard = client.lock("paid").acquire()) {
        guard.onLost(why -> {});
      }
      client.lock("paid").acquireAsync().thenCompose(Guard::releaseAsync).join();
      // What the program forgets to give back goes with the client.
      client.lock("kept").acquire("5s").onLost(why -> {});
      client.reentrantLock("kept by the thread").lock();
      response.getWriter().print(Lockwright.class.getClassLoader().getClass().getSimpleName());
    }

    @Override
    public void destroy() {
      client.close();
    }
  }

  /** What the container warns of. */
  private static final class Warnings extends Handler {
    final List<String> said = new CopyOnWriteArrayList<>();

    @Override
    public void publish(LogRecord record) {
      if (record.getLevel().intValue() >= Level.WARNING.intValue()) {
        said.add(record.getMessage());
      }
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  @TempDir Path folder;
  private final Logger logger = Logger.getLogger("org.apache");
  private final Warnings warnings = new Warnings();
  private Tomcat tomcat;

  @BeforeEach
  void start() throws Exception {
    logger.addHandler(warnings);
    logger.setUseParentHandlers(false);
    tomcat = new Tomcat();
    tomcat.setBaseDir(folder.resolve("tomcat").toString());
    tomcat.setPort(0);
    tomcat.getConnector();
    tomcat.start();
  }

  @AfterEach
  void stop() throws Exception {
    tomcat.stop();
    tomcat.destroy();
    logger.setUseParentHandlers(true);
    logger.removeHandler(warnings);
  }

  @Test
  void aRedeployedApplicationLeavesNothing() throws Exception {
    String place = Places.shared();
    Path application = application();
    try (Client client = Lockwright.connect(place)) {
      client.lock("paid").acquire().release();
      long threads = NativeThreads.count();
      for (int deployments = 0; deployments < 2; deployments++) {
        Context context = deploy(application, place);
        assertEquals("ParallelWebappClassLoader", ask());
        assertNotEquals(threads, NativeThreads.count());
        WeakReference<ClassLoader> loader = new WeakReference<>(context.getLoader().getClassLoader());
        tomcat.getHost().removeChild(context);
        context = null;
        for (String name : List.of("paid", "kept", "kept by the thread")) {
          client.lock(name).acquire("5s").release();
        }
        Places.awaitCollected(loader);
        NativeThreads.await(threads);
      }
    }
    assertEquals(List.of(), warnings.said);
  }

  /** An application as it lies in the container's folder, with the library in WEB-INF/lib. */
  private Path application() throws Exception {
    Path application = Files.createDirectories(folder.resolve("application"));
    String servlet = Sale.class.getName().replace('.', '/') + ".class";
    Path to = application.resolve("WEB-INF/classes").resolve(servlet);
    Files.createDirectories(to.getParent());
    try (InputStream in = Sale.class.getResourceAsStream("/" + servlet)) {
      Files.copy(in, to);
    }
    Path jar = Files.createDirectories(application.resolve("WEB-INF/lib")).resolve("lockwright.jar");
    Path classes = Path.of(Lockwright.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    try (OutputStream out = Files.newOutputStream(jar);
        ZipOutputStream zip = new ZipOutputStream(out);
        var files = Files.walk(classes)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        zip.putNextEntry(new ZipEntry(classes.relativize(file).toString()));
        Files.copy(file, zip);
      }
    }
    return application;
  }

  private Context deploy(Path application, String place) {
    Context context = tomcat.addContext("", application.toString());
    context.addParameter("locks", place);
    Tomcat.addServlet(context, "sale", Sale.class.getName());
    context.addServletMappingDecoded("/", "sale");
    return context;
  }

  private String ask() throws IOException {
    URI address = URI.create("http://localhost:" + tomcat.getConnector().getLocalPort() + "/");
    try (InputStream in = address.toURL().openStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
