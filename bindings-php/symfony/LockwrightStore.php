<?php
declare(strict_types=1);

namespace Lockwright\Symfony;

use Lockwright\{Client, Guard, InvalidConfig, Lock, LockException, LockLost, NotOwned};
use Psr\Log\{LoggerAwareInterface, LoggerAwareTrait, NullLogger};
use Symfony\Component\Lock\{BlockingSharedLockStoreInterface, BlockingStoreInterface, Key};
use Symfony\Component\Lock\Exception\{InvalidTtlException, LockAcquiringException, LockConflictedException, LockExpiredException};
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * Symfony's locks (5.2 and later) kept by Lockwright, on any store that it knows. Waiters are woken, and do not poll.
 *
 * - The guard is in the key, and so in this process: a key that was saved cannot be serialized. Without read/write
 *   locks `guard($key)->export()` hands one to another process, which resumes it by Lockwright.
 * - When nothing refers to the key any more, and at the end of the request, the lock is given back, whatever
 *   `autoRelease` says.
 * - `exists` tells whether this key certainly holds the lock, without asking the store, and gives back what expired.
 * - A lease is never shortened. Where `initialTtl` is longer than a lock's own time and its process dies, others wait for
 *   `initialTtl`.
 * - A key that reads is promoted only while nobody else reads; who waits for that looks ten times a second. Two keys that
 *   wait for each other so wait until one expires.
 * - A lock lasts at least 20 ms and at most 24 hours.
 */
final class LockwrightStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface, LoggerAwareInterface
{
    use ExpiringStoreTrait;
    use LoggerAwareTrait;

    private const SHORTEST = 0.02;
    private const LOOK_AGAIN_MICROSECONDS = 100_000;

    private static int $made = 0;

    /** Where a key has this store's guard; a CombinedStore shows one key to several. */
    private readonly string $state;

    /**
     * @param float $initialTtl seconds that a lock lasts until Symfony gives it its own time, which is at once where it has one
     * @param bool  $renew      whether locks are renewed for as long as their key is there, and so do not expire
     * @param bool  $readWrite  whether locks are read/write locks, `rwLock` elsewhere; else they are those that programs
     *                          share by `lock`, and `acquireRead` takes the whole lock
     *
     * @throws \Lockwright\Unsupported where the client's store or layout has no read/write locks
     */
    public function __construct(
        private readonly Client $client,
        private readonly float $initialTtl = 30.0,
        private readonly bool $renew = false,
        private readonly bool $readWrite = true,
    ) {
        if ($readWrite) {
            $client->require(rwlock: true);
        }
        $this->state = self::class . '#' . self::$made++;
        $this->logger = new NullLogger();
    }

    public function save(Key $key): void
    {
        $this->take($key, write: true, wait: false);
    }

    public function saveRead(Key $key): void
    {
        $this->take($key, write: !$this->readWrite, wait: false);
    }

    public function waitAndSave(Key $key): void
    {
        $this->take($key, write: true, wait: true);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->take($key, write: !$this->readWrite, wait: true);
    }

    /**
     * The lease lasts `ttl` seconds from now.
     *
     * @throws InvalidTtlException     of more than 24 hours
     * @throws LockConflictedException if the key holds the lock no longer
     * @throws LockAcquiringException  if the store does not answer
     */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        $guard = $this->held($key) ?? throw $this->lost($key);
        $this->limit($key, $ttl);
        try {
            $guard->extend(max($ttl, self::SHORTEST));
        } catch (NotOwned | LockLost $error) {
            throw $this->lost($key, $error);
        } catch (InvalidConfig $error) {
            throw new InvalidTtlException($error->getMessage(), 0, $error);
        } catch (LockException $error) {
            throw new LockAcquiringException($error->getMessage(), 0, $error);
        }
        $this->checkNotExpired($key);
    }

    /** @throws LockReleasingException if it is not known whether the lock is free */
    public function delete(Key $key): void
    {
        $guard = $this->guard($key);
        if (!$guard) {
            return;
        }
        $key->removeState($this->state);
        try {
            $found = $guard->release();
        } catch (NotOwned) {
            return;
        } catch (LockException $error) {
            throw new LockReleasingException($error->getMessage(), 0, $error);
        }
        if ($found === 'unknown') {
            throw new LockReleasingException("The store did not say whether the lock \"$key\" is free; it is when its lease ends.");
        }
        if ($found !== 'released') {
            $lost = ['resource' => (string) $key, 'found' => $found];
            $this->logger->warning('The "{resource}" lock was lost before it was released: {found}.', $lost);
        }
    }

    public function exists(Key $key): bool
    {
        try {
            $this->checkNotExpired($key);
        } catch (LockExpiredException) {
            return false;
        }
        return (bool) $this->held($key);
    }

    /** What the key holds or held, for its fencing token, or to export it; null where it was not saved here. */
    public function guard(Key $key): ?Guard
    {
        return $key->hasState($this->state) ? $key->getState($this->state)[0] : null;
    }

    private function held(Key $key): ?Guard
    {
        $guard = $this->guard($key);
        return $guard?->isHeld() ? $guard : null;
    }

    private function take(Key $key, bool $write, bool $wait): void
    {
        $key->markUnserializable();
        try {
            $guard = $this->held($key);
            if ($guard) {
                $this->change($key, $guard, $write, $wait);
                $guard->extend($this->initialTtl);
            } else {
                $lock = $this->lock($key, $write);
                $guard = $wait ? $lock->acquire(timeout: -1) : $lock->tryAcquire();
            }
        } catch (NotOwned | LockLost $error) {
            throw new LockConflictedException($error->getMessage(), 0, $error);
        } catch (LockException $error) {
            throw new LockAcquiringException($error->getMessage(), 0, $error);
        }
        if (!$guard) {
            throw new LockConflictedException("Somebody else holds the lock \"$key\".");
        }
        $key->setState($this->state, [$guard, $write]);
        $this->limit($key, $this->initialTtl);
        $this->checkNotExpired($key);
    }

    /** Makes a reader the writer, or the writer a reader, where the key is not yet what it is to be. */
    private function change(Key $key, Guard $guard, bool $write, bool $wait): void
    {
        if ($key->getState($this->state)[1] === $write) {
            return;
        }
        if (!$write) {
            $guard->downgrade();
            return;
        }
        while (!$guard->tryUpgrade()) {
            if (!$wait) {
                throw new LockConflictedException("Somebody else reads under the lock \"$key\".");
            }
            usleep(self::LOOK_AGAIN_MICROSECONDS);
        }
    }

    private function lock(Key $key, bool $write): Lock
    {
        $options = ['ttl' => $this->initialTtl, 'renew' => $this->renew];
        if (!$this->readWrite) {
            return $this->client->lock((string) $key, ...$options);
        }
        $both = $this->client->rwLock((string) $key, ...$options);
        return $write ? $both->write() : $both->read();
    }

    private function limit(Key $key, float $ttl): void
    {
        if (!$this->renew) {
            $key->reduceLifetime($ttl);
        }
    }

    private function lost(Key $key, ?LockException $error = null): LockConflictedException
    {
        $why = $this->guard($key)?->whyLost() ?? 'not held';
        $this->logger->warning('The "{resource}" lock is not held any more: {why}.', ['resource' => (string) $key, 'why' => $why]);
        return new LockConflictedException("This key does not hold the lock \"$key\": $why.", 0, $error);
    }
}
