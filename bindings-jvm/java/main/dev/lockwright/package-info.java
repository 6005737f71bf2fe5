/**
 * Distributed locks that Java shares with Python, Node, Rust and shell scripts: {@link dev.lockwright.Lockwright#connect()} is where
 * it begins.
 *
 * <p>Spans of time are a {@link java.time.Duration} or a text with a unit, such as {@code "10s"} and {@code "500ms"}. Whatever fails
 * throws a {@link dev.lockwright.LockException}, which is unchecked and has a {@code code()} that is the same in every language.
 *
 * <p>Threads: everything here may be used by any thread. A platform thread does its first try itself; what waits parks in Java and can
 * be interrupted. A virtual thread never blocks its carrier while it waits. Methods whose name ends in {@code Async} return at once; what
 * they return completes as {@link dev.lockwright.ConnectOptions#executor} says, and {@code cancel} leaves the queue.
 */
package dev.lockwright;
