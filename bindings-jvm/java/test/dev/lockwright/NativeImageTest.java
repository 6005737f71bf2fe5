package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** That what is found by its name at run time is in the metadata for images, for which only what the compiler sees is there. */
class NativeImageTest {
  private static final Path CLASSES = Path.of("target/classes");
  private static final Path METADATA = CLASSES.resolve("META-INF/native-image/dev.lockwright/lockwright");

  /** A lookup of Java's by name: of a member of a class, or of a class. */
  private static final Pattern IN_JAVA =
      Pattern.compile("\\bfind(?:Virtual|Static|Special|Getter|VarHandle)\\((\\w+)\\.class, \"(\\w+)\"|\\bforName\\(\"([\\w.]+)\"");

  /** A function of the JNI table, and the names that follow it. */
  private static final Pattern OF_TABLE = Pattern.compile("\\(\\*\\*env\\)\\s*\\.\\s*(\\w+)");

  /** Those that look nothing up. */
  private static final Set<String> HARMLESS = Set.of("GetByteArrayRegion", "NewByteArray", "SetByteArrayRegion");

  /** All that a program's text looks up by name, as {@code Class} or {@code Class.member}. */
  private static Set<String> lookedUp(String source) {
    Set<String> names = new TreeSet<>();
    Matcher found = IN_JAVA.matcher(source);
    while (found.find()) {
      names.add(found.group(3) != null ? found.group(3) : found.group(1) + "." + found.group(2));
    }
    return names;
  }

  private static Set<String> calledOfTable(String source) {
    Set<String> names = new TreeSet<>();
    Matcher found = OF_TABLE.matcher(source);
    while (found.find()) {
      names.add(found.group(1));
    }
    return names;
  }

  /** The same of what the metadata names. */
  private static Set<String> named() throws IOException {
    JsonObject metadata = JsonParser.parseString(Files.readString(METADATA.resolve("reachability-metadata.json"))).getAsJsonObject();
    Set<String> names = new TreeSet<>();
    for (JsonElement one : metadata.getAsJsonArray("reflection")) {
      JsonObject type = one.getAsJsonObject();
      String full = type.get("type").getAsString();
      names.add(full);
      if (type.has("methods")) {
        String simple = full.substring(full.lastIndexOf('.') + 1);
        type.getAsJsonArray("methods").forEach(method -> names.add(simple + "." + method.getAsJsonObject().get("name").getAsString()));
      }
    }
    return names;
  }

  private static String sources(String folder, String ending) throws IOException {
    StringBuilder all = new StringBuilder();
    try (var files = Files.walk(Path.of(folder))) {
      for (Path file : files.filter(path -> path.toString().endsWith(ending)).toList()) {
        all.append(Files.readString(file));
      }
    }
    return all.toString();
  }

  @Test
  void whatJavaLooksUpIsNamed() throws IOException {
    Set<String> wanted = lookedUp(sources("java/main", ".java"));
    assertTrue(wanted.contains("Thread.isVirtual"), wanted::toString);
    Set<String> missing = new TreeSet<>(wanted);
    missing.removeAll(named());
    assertEquals(Set.of(), missing);
    assertEquals(Set.of("a.B", "Thread.isOld"), lookedUp("forName(\"a.B\"); lookup().findVirtual(Thread.class, \"isOld\", type)"));
  }

  /** It finds neither classes nor members: if it should, they are to be named, and this test is to compare them. */
  @Test
  void theNativeLibraryLooksNothingUp() throws IOException {
    assertEquals(new TreeSet<>(HARMLESS), calledOfTable(sources("src", ".rs")));
    assertEquals(Set.of("FindClass"), calledOfTable("let class = (**env).FindClass;"));
  }

  @Test
  void theLibraryIsInTheImage() throws IOException {
    JsonObject metadata = JsonParser.parseString(Files.readString(METADATA.resolve("reachability-metadata.json"))).getAsJsonObject();
    List<Path> libraries;
    try (var files = Files.walk(CLASSES.resolve("META-INF/native"))) {
      libraries = files.filter(Files::isRegularFile).map(CLASSES::relativize).toList();
    }
    List<Path> missing = new ArrayList<>(libraries);
    for (JsonElement one : metadata.getAsJsonArray("resources")) {
      var glob = FileSystems.getDefault().getPathMatcher("glob:" + one.getAsJsonObject().get("glob").getAsString());
      missing.removeIf(glob::matches);
    }
    assertTrue(!libraries.isEmpty() && missing.isEmpty(), missing::toString);
    assertTrue(Files.readString(METADATA.resolve("native-image.properties")).contains("--initialize-at-run-time=dev.lockwright"));
  }
}
