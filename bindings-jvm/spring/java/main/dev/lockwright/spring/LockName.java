package dev.lockwright.spring;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.LiteralExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** The name of a method's lock, whose parts may depend on the arguments. */
final class LockName {
  private static final SpelExpressionParser PARSER = new SpelExpressionParser();
  private static final ParameterNameDiscoverer NAMES = new DefaultParameterNameDiscoverer();

  /** An expression that somebody forgot to put into braces. */
  private static final Pattern BARE = Pattern.compile("#\\w+");

  private final Method method;
  private final ConfigurableBeanFactory beans;
  private final List<Expression> parts;

  /**
   * Reads a name.
   *
   * @throws IllegalArgumentException where it says what there is not
   */
  LockName(String name, Method method, ConfigurableBeanFactory beans) {
    this.method = method;
    this.beans = beans;
    parts = parts(PARSER.parseExpression(name, new TemplateParserContext()));
    parts.forEach(this::check);
  }

  private static List<Expression> parts(Expression parsed) {
    return parsed instanceof CompositeStringExpression several ? List.of(several.getExpressions()) : List.of(parsed);
  }

  private void check(Expression part) {
    if (part instanceof SpelExpression expression) {
      Set<String> known = variables();
      variablesOf(expression.getAST()).filter(name -> !known.contains(name)).findFirst().ifPresent(name -> {
        throw new IllegalArgumentException("its name has #" + name + ", but there are only "
            + known.stream().sorted().map(other -> "#" + other).collect(Collectors.joining(", "))
            + "; parameters have names where javac was given -parameters");
      });
    } else {
      Matcher bare = BARE.matcher(part.getExpressionString());
      if (bare.find()) {
        throw new IllegalArgumentException("an expression in a name stands in braces: #{" + bare.group() + "}");
      }
    }
  }

  private Set<String> variables() {
    String[] names = NAMES.getParameterNames(method);
    Stream<String> places = IntStream.range(0, method.getParameterCount()).boxed().flatMap(i -> Stream.of("p" + i, "a" + i));
    return Stream.concat(Stream.concat(places, names == null ? Stream.empty() : Stream.of(names)), Stream.of("root", "this"))
        .collect(Collectors.toSet());
  }

  private static Stream<String> variablesOf(SpelNode node) {
    Stream<String> below = IntStream.range(0, node.getChildCount()).mapToObj(node::getChild).flatMap(LockName::variablesOf);
    return node instanceof VariableReference ? Stream.concat(Stream.of(node.toStringAST().substring(1)), below) : below;
  }

  /** The name for a call. */
  String of(Object target, Object[] arguments) {
    MethodBasedEvaluationContext context = new MethodBasedEvaluationContext(target, method, arguments, NAMES);
    context.setBeanResolver(new BeanFactoryResolver(beans));
    return parts.stream().map(part -> text(part, context)).collect(Collectors.joining());
  }

  private String text(Expression part, EvaluationContext context) {
    String text = part instanceof LiteralExpression ? part.getExpressionString() : part.getValue(context, String.class);
    if (text == null) {
      // Else all calls of which it is null would share one lock.
      throw new IllegalArgumentException("#{" + part.getExpressionString() + "} in the name of the lock of " + method + " is null");
    }
    return text;
  }
}
