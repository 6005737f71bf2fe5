<?php
declare(strict_types=1);

namespace Lockwright\Laravel;

use Illuminate\Contracts\Cache\{Lock as Contract, LockTimeoutException};
use Lockwright\{Client, Guard, Lock, LockTimeout, NotOwned};

/**
 * A lock of Laravel's kept by Lockwright. Who waits is woken, and does not poll.
 *
 * - With `seconds` it ends that long after it was acquired (20 ms to 24 hours); without, it is renewed until it is released.
 * - It is given back when nothing refers to it any more, and at the end of the request, unless `owner()` was asked: that
 *   leaves the lock to whoever has the answer, for `seconds` from then (24 hours where there are none), and `restoreLock`
 *   in any process takes it up. Treat the answer as a password.
 * - What the store cannot do, and that it does not answer, is a `Lockwright\LockException`.
 */
final class LockwrightLock implements Contract
{
    private const DAY = 86400.0;

    private readonly Lock $lock;
    private ?Guard $guard = null;

    /** @param string|null $owner what `owner()` said in another process, which holds the lock since */
    public function __construct(private readonly Client $client, string $name, private readonly float $seconds, private ?string $owner = null)
    {
        $this->lock = $client->lock($name, ...($seconds > 0 ? ['ttl' => $seconds, 'renew' => false] : []));
    }

    public function get($callback = null)
    {
        $guard = $this->lock->tryAcquire();
        if (!$guard) {
            return false;
        }
        $this->guard = $guard;
        return $this->during($callback);
    }

    /** @throws LockTimeoutException when others held it for all of `seconds` */
    public function block($seconds, $callback = null)
    {
        try {
            $this->guard = $this->lock->acquire(timeout: (float) $seconds);
        } catch (LockTimeout $error) {
            throw new LockTimeoutException($error->getMessage(), 0, $error);
        }
        return $this->during($callback);
    }

    private function during(?callable $callback): mixed
    {
        $this->owner = null;
        if (!$callback) {
            return true;
        }
        try {
            return $callback();
        } finally {
            $this->release();
        }
    }

    /** Whether it was held until now. */
    public function release(): bool
    {
        try {
            $guard = $this->owner === null ? $this->guard : $this->client->resume($this->owner);
            return $guard?->release() === 'released';
        } catch (NotOwned) {
            return false;
        } finally {
            [$this->guard, $this->owner] = [null, null];
        }
    }

    /** What `restoreLock` wants; the lock is held by whoever has it from now on. Empty where this one does not hold it. */
    public function owner(): string
    {
        try {
            return $this->owner ??= $this->guard?->export($this->seconds ?: self::DAY) ?? '';
        } catch (NotOwned) {
            return '';
        }
    }

    /** Takes the lock from whoever holds it. */
    public function forceRelease(): void
    {
        $holder = $this->lock->inspect()->holder;
        if ($holder) {
            $this->lock->breakLock($holder->lastToken);
        }
        [$this->guard, $this->owner] = [null, null];
    }

    /** The guard, for its fencing token and for what happens when the lock is lost; null where this one holds none. */
    public function guard(): ?Guard
    {
        return $this->guard;
    }
}
