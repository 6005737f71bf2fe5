/**
 * Distributed locks that programs in every language share.
 *
 * ```ts
 * const client = await connect('redis://localhost')
 * await using guard = await client.lock('orders:42', { ttl: 10_000 }).acquire({ timeout: 2_000 })
 * await fetch(url, { signal: guard.signal, headers: { 'If-Fence': String(guard.token) } })
 * ```
 *
 * What is held is renewed until it is released, by a thread of its own: a busy event loop loses no lock. A process that dies
 * holds it for `ttl` at most.
 *
 * @packageDocumentation
 */

// What this is where no native library fits the platform, `build.mjs` writes.
export * from './api'
