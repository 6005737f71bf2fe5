package dev.lockwright;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Finds and loads the native library: the file that a property names, else the one in the jar, which is copied to a private file of this
 * class loader's and removed once it is loaded.
 */
final class Library {
  /** The property that names a file to load instead of the one in the jar. */
  static final String PROPERTY = "dev.lockwright.library";

  private static final String FILE = "lib" + Native.LIBRARY + ".so";

  private final List<String> attempts = new ArrayList<>();

  private Library() {}

  static void load() {
    Library library = new Library();
    String named = System.getProperty(PROPERTY);
    boolean loaded = named != null ? library.named(Path.of(named)) : library.ofJar();
    if (!loaded) {
      throw new UnsatisfiedLinkError(library.explain());
    }
    String version = (String) new Request(Verb.VERSION).call();
    String ours = Library.class.getPackage().getImplementationVersion();
    if (ours != null && !ours.equals(version)) {
      throw new UnsatisfiedLinkError("the native library is of version " + version + ", the Java classes are of " + ours);
    }
  }

  private boolean named(Path file) {
    return loads(file.toAbsolutePath(), "the file that -D" + PROPERTY + " names");
  }

  private boolean ofJar() {
    for (String platform : platforms()) {
      String resource = "/META-INF/native/" + platform + "/" + FILE;
      try (InputStream in = Library.class.getResourceAsStream(resource)) {
        if (in == null) {
          attempts.add(resource + ": the jar has no such file");
        } else if (copied(in, resource)) {
          return true;
        }
      } catch (IOException error) {
        attempts.add(resource + ": " + error);
      }
    }
    return false;
  }

  /** Those that this machine may be; only the C library itself knows which it is, so both are tried. */
  private static List<String> platforms() {
    String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String arch = System.getProperty("os.arch").replace("amd64", "x86-64").replace("x86_64", "x86-64");
    return List.of(os + "-" + arch, os + "-" + arch + "-musl");
  }

  private boolean copied(InputStream in, String resource) throws IOException {
    var onlyOurs = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
    Path folder = Files.createTempDirectory("lockwright-", onlyOurs);
    // Each class loader has a file of its own: the JVM loads none twice.
    Path file = folder.resolve(FILE);
    try {
      Files.copy(in, file);
      return loads(file, resource + ", copied to " + file);
    } finally {
      Files.deleteIfExists(file);
      Files.deleteIfExists(folder);
    }
  }

  private boolean loads(Path file, String what) {
    try {
      Native.load(file.toString());
      return true;
    } catch (UnsatisfiedLinkError | IllegalCallerException error) {
      attempts.add(what + ": " + error.getMessage());
      return false;
    }
  }

  private String explain() {
    StringBuilder text = new StringBuilder("the native library of Lockwright could not be loaded on ")
        .append(System.getProperty("os.name")).append(' ').append(System.getProperty("os.arch"))
        .append(", Java ").append(Runtime.version());
    attempts.forEach(attempt -> text.append("\n  tried ").append(attempt));
    if (Runtime.version().feature() >= 24) {
      String module = Library.class.getModule().isNamed() ? Library.class.getModule().getName() : "ALL-UNNAMED";
      text.append("\n  if native access is denied, start java with --enable-native-access=").append(module);
    }
    return text.append("\n  -D").append(PROPERTY).append("=FILE names another file; java.io.tmpdir must not be mounted noexec")
        .toString();
  }
}
