<?php
declare(strict_types=1);

namespace Lockwright\Laravel;

use Illuminate\Contracts\Cache\{LockProvider, Store};
use Lockwright\Client;

require_once __DIR__ . '/LockwrightLock.php';

/**
 * A cache store of Laravel's with Lockwright's locks: values lie in another store, as before, and `Cache::lock` and all that
 * Laravel builds on it are kept by a client. In a service provider:
 *
 *     Cache::extend('lockwright', fn ($app, $config) => Cache::repository(
 *         new LockwrightStore(Cache::store($config['store'])->getStore(), Client::connect($config['url'] ?? null))));
 */
final class LockwrightStore implements LockProvider, Store
{
    /** @param Store $values where everything but locks lies */
    public function __construct(private readonly Store $values, private readonly Client $client)
    {
    }

    /** @throws \Lockwright\LockException for a name or a time that no lock can have */
    public function lock($name, $seconds = 0, $owner = null): LockwrightLock
    {
        return new LockwrightLock($this->client, (string) $name, (float) $seconds, $owner);
    }

    /** The lock that another process left to this owner by `owner()`. */
    public function restoreLock($name, $owner): LockwrightLock
    {
        return $this->lock($name, 0, $owner);
    }

    public function get($key)
    {
        return $this->values->get($key);
    }

    public function many(array $keys)
    {
        return $this->values->many($keys);
    }

    public function put($key, $value, $seconds)
    {
        return $this->values->put($key, $value, $seconds);
    }

    public function putMany(array $values, $seconds)
    {
        return $this->values->putMany($values, $seconds);
    }

    public function increment($key, $value = 1)
    {
        return $this->values->increment($key, $value);
    }

    public function decrement($key, $value = 1)
    {
        return $this->values->decrement($key, $value);
    }

    public function forever($key, $value)
    {
        return $this->values->forever($key, $value);
    }

    public function touch($key, $seconds)
    {
        return $this->values->touch($key, $seconds);
    }

    public function forget($key)
    {
        return $this->values->forget($key);
    }

    public function flush()
    {
        return $this->values->flush();
    }

    public function getPrefix()
    {
        return $this->values->getPrefix();
    }
}
