package dev.lockwright.spring;

import dev.lockwright.Client;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.framework.AopInfrastructureBean;
import org.springframework.aop.framework.AopProxyUtils;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.AopUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.core.MethodClassKey;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;

/**
 * Puts the advice of {@link Locked} methods round beans: outside of transactions, so that what is locked is committed before others see
 * it, and inside of {@code @Async}, so that the lock is held where the work is done.
 */
final class LockedPostProcessor extends AbstractBeanFactoryAwareAdvisingPostProcessor {
  private static final long serialVersionUID = 1;

  private final transient ObjectProvider<Client> client;
  private final transient Map<MethodClassKey, LockedMethod> methods = new ConcurrentHashMap<>();

  LockedPostProcessor(ObjectProvider<Client> client) {
    this.client = client;
    // Before the processors of @Scheduled, which is to call the proxy, and of @Async, which goes outside of it; both are the last.
    setOrder(LOWEST_PRECEDENCE - 1);
    setBeforeExistingAdvisors(true);
    setProxyTargetClass(true);
    MethodInterceptor advice = this::call;
    advisor = new DefaultPointcutAdvisor(new AnnotationMatchingPointcut(null, Locked.class, true), advice);
  }

  @Override
  public Object postProcessAfterInitialization(Object bean, String name) {
    Class<?> type = AopProxyUtils.ultimateTargetClass(bean);
    if (!(bean instanceof AopInfrastructureBean) && AnnotationUtils.isCandidateClass(type, Locked.class)) {
      MethodIntrospector.selectMethods(type, LockedPostProcessor::lockedOf).forEach((method, locked) -> locked(method, type));
    }
    return super.postProcessAfterInitialization(bean, name);
  }

  private static Locked lockedOf(Method method) {
    return AnnotatedElementUtils.findMergedAnnotation(method, Locked.class);
  }

  private LockedMethod locked(Method method, Class<?> type) {
    return methods.computeIfAbsent(new MethodClassKey(method, type), key -> {
      try {
        return new LockedMethod(client.getObject(), beanFactory, lockedOf(method), method);
      } catch (RuntimeException cannot) {
        throw new IllegalStateException("@Locked on " + method + " cannot be honoured: " + cannot.getMessage(), cannot);
      }
    });
  }

  private Object call(MethodInvocation call) throws Throwable {
    Class<?> type = AopProxyUtils.ultimateTargetClass(call.getThis());
    return locked(AopUtils.getMostSpecificMethod(call.getMethod(), type), type).call(call);
  }
}
