/** Lockwright in Spring Boot: a client from properties, {@link dev.lockwright.spring.Locked} methods, a lock registry, health and metrics. */
package dev.lockwright.spring;
