<?php
// Locks as they stand in many an article, each with the mistake it is known for. `yield` is where another process may come in
// between, or where this one may die: the verdict stops them there.
declare(strict_types=1);

/** Two commands take the lock: who dies after the first leaves it taken for ever. */
function takenByTwoCommands(Redis $redis, string $lock, string $me, int $ttl): Generator
{
    $taken = $redis->setnx($lock, $me);
    yield;
    return $taken && $redis->pExpire($lock, $ttl);
}

/** The lock ends at a time of day, which everybody reads from a clock of his own. */
function takenByTheClock(Redis $redis, string $lock, int $now, int $ttl): bool
{
    if ($redis->setnx($lock, $now + $ttl)) {
        return true;
    }
    $until = $redis->get($lock);
    return $until < $now && $redis->getSet($lock, $now + $ttl) === $until;
}

/** Whoever comes deletes the lock, whosever it is. */
function givenBackUnasked(Redis $redis, string $lock): void
{
    $redis->del($lock);
}

/** It asks whose the lock is, and then deletes what may be another's by now. */
function givenBackAfterALook(Redis $redis, string $lock, string $me): Generator
{
    if ($redis->get($lock) === $me) {
        yield;
        $redis->del($lock);
    }
}

/** The right way to take it, so that only the way to give it back is on trial. */
function taken(Redis $redis, string $lock, string $me, int $ttl): bool
{
    return $redis->set($lock, $me, ['nx', 'px' => $ttl]) === true;
}
