package dev.lockwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Every name that the core tells bindings of is here, under the same name in Java's spelling. */
class ManifestTest {
  private static final Reply.Fields MANIFEST = (Reply.Fields) new Request(Verb.MANIFEST).call();

  /** What Java has elsewhere, or by another name: {@code wait} is everybody's own method, and no name for a part of a record. */
  private static final Map<String, String> OWN = Map.of("Lock.resize", "Semaphore.resize", "Latch.wait", "Latch.await", "Barrier.wait",
      "Barrier.await", "Metrics.wait", "waitTimes", "Metrics.hold", "holdTimes");

  private static String camel(String name) {
    return Pattern.compile("_(.)").matcher(name).replaceAll(match -> match.group(1).toUpperCase(Locale.ROOT));
  }

  private static Class<?> type(String name) {
    try {
      return Class.forName("dev.lockwright." + name);
    } catch (ClassNotFoundException missing) {
      throw new AssertionError("there is no class " + name);
    }
  }

  private static Reply.Fields fields(String name) {
    return MANIFEST.get(name);
  }

  @TestFactory
  Stream<DynamicTest> eachOperation() {
    return fields("operations").values().entrySet().stream().flatMap(of -> ((Reply.Fields) of.getValue()).values().entrySet().stream()
        .map(operation -> DynamicTest.dynamicTest(of.getKey() + "." + operation.getKey(),
            () -> isThere(of.getKey(), operation.getKey(), ((List<?>) operation.getValue()).size()))));
  }

  private static void isThere(String of, String operation, int takes) {
    String[] place = OWN.getOrDefault(of + "." + operation, of + "." + camel(operation)).split("\\.");
    List<Method> methods = Arrays.stream(type(place[0]).getMethods()).filter(method -> method.getName().equals(place[1])).toList();
    assertTrue(methods.stream().anyMatch(method -> method.getParameterCount() == takes), of + "." + operation + " with " + takes);
  }

  @Test
  void eachOptionAndNoOther() {
    Set<String> options = methods(Options.class);
    options.removeAll(methods(Object.class));
    assertEquals(names(fields("options").<Reply.Fields>get("lock").values().keySet()), options);
    Set<String> connect = methods(ConnectOptions.class);
    connect.removeAll(methods(Object.class));
    Set<String> wanted = names(fields("options").<Reply.Fields>get("connect").values().keySet());
    wanted.addAll(Set.of("credentials", "executor"));
    assertEquals(wanted, connect);
    assertEquals(names(fields("options").<Reply.Fields>get("require").values().keySet()),
        Arrays.stream(Requirement.values()).map(Requirement::option).collect(Collectors.toCollection(TreeSet::new)));
  }

  private static Set<String> methods(Class<?> of) {
    return Arrays.stream(of.getMethods()).map(Method::getName).collect(Collectors.toCollection(TreeSet::new));
  }

  private static Set<String> names(Set<String> snake) {
    return snake.stream().map(ManifestTest::camel).collect(Collectors.toCollection(TreeSet::new));
  }

  @TestFactory
  Stream<DynamicTest> eachFieldOfRecords() {
    return fields("records").values().entrySet().stream().map(of -> DynamicTest.dynamicTest(of.getKey(), () -> {
      List<String> known = ((List<?>) of.getValue()).stream().map(String.class::cast)
          .map(field -> OWN.getOrDefault(of.getKey() + "." + field, camel(field))).toList();
      assertEquals(known, Arrays.stream(type(of.getKey()).getRecordComponents()).map(part -> part.getName()).toList());
    }));
  }

  @TestFactory
  Stream<DynamicTest> eachError() {
    List<Reply.Fields> errors = MANIFEST.get("errors");
    return errors.stream().map(error -> DynamicTest.dynamicTest(error.get("code"), () -> {
      LockException made = LockException.of(new Reply.Failure(error.get("code"), "", "", null, null));
      assertEquals(error.<String>get("code"), made.code());
      assertEquals(error.<Boolean>get("retryable"), made.retryable());
      assertEquals(LockException.class, made.getClass().getSuperclass());
    }));
  }

  @Test
  void eachReasonAndOutcome() {
    assertEquals(MANIFEST.<List<String>>get("losses"), Arrays.stream(LossReason.values()).map(LossReason::code).toList());
    assertEquals(MANIFEST.<List<String>>get("outcomes"), Arrays.stream(ReleaseOutcome.values()).map(ReleaseOutcome::code).toList());
  }

  @Test
  void eachVerb() {
    assertEquals(47, Verb.values().length - 1);
  }
}
