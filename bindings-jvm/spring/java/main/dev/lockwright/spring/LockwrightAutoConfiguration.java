package dev.lockwright.spring;

import dev.lockwright.Client;
import dev.lockwright.ConnectOptions;
import dev.lockwright.Lockwright;
import dev.lockwright.Requirement;
import io.micrometer.core.instrument.binder.MeterBinder;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Role;
import org.springframework.integration.support.locks.LockRegistry;

/** A client from properties, and what Spring can do with it. Beans of the program's own go before these. */
@AutoConfiguration
@EnableConfigurationProperties(LockwrightProperties.class)
public class LockwrightAutoConfiguration {
  /** For Spring. */
  public LockwrightAutoConfiguration() {}

  @Bean(destroyMethod = "close")
  @ConditionalOnMissingBean
  Client lockwrightClient(LockwrightProperties properties, ObjectProvider<ConnectOptionsCustomizer> customizers) {
    ConnectOptions options = properties.options();
    customizers.orderedStream().forEach(customizer -> customizer.customize(options));
    Client client = Lockwright.connect(properties.url(), options);
    client.require(properties.require().toArray(Requirement[]::new));
    return client;
  }

  @Bean
  LockwrightLifecycle lockwrightLifecycle(Client client, LockwrightProperties properties) {
    return new LockwrightLifecycle(client, properties.drain());
  }

  @Bean
  @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
  static LockedPostProcessor lockedPostProcessor(ObjectProvider<Client> client) {
    return new LockedPostProcessor(client);
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(LockRegistry.class)
  static class Integration {
    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    LockwrightLockRegistry lockwrightLockRegistry(Client client) {
      return new LockwrightLockRegistry(client);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
  @ConditionalOnEnabledHealthIndicator("lockwright")
  static class Health {
    @Bean
    @ConditionalOnMissingBean(name = "lockwrightHealthIndicator")
    LockwrightHealthIndicator lockwrightHealthIndicator(Client client) {
      return new LockwrightHealthIndicator(client);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(MeterBinder.class)
  static class Meters {
    @Bean
    @ConditionalOnMissingBean
    LockwrightMetrics lockwrightMetrics(Client client) {
      return new LockwrightMetrics(client);
    }
  }
}
