<?php
// One process at a time rebuilds a cache entry, whatever host it runs on.
declare(strict_types=1);

use Lockwright\Client;

function rebuild(Client $client, string $entry, callable $work, float $ttl = 10): mixed
{
    $guard = $client->lock($entry, ttl: $ttl)->acquire(timeout: 5);
    try {
        return $work($guard);
    } finally {
        $guard->release();
    }
}
