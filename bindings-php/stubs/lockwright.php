<?php

/**
 * What the extension `lockwright` has, for editors and analysers; never loaded. `tests/ManifestTest.php` compares it with the
 * extension.
 *
 * Spans of time are numbers of seconds, or texts such as '10s' and '500ms'.
 */

namespace Lockwright;

/** What every error of this library is. `getCode()` gives a text, such as `timeout`. */
class LockException extends \Exception
{
    public string $operation;
    public ?string $lock;
    public ?string $store;
    public bool $retryable;
}

/** Somebody else held the lock for the whole time limit, as the store said. The place in the queue is gone by then, unless the store takes more than 0.1 s to say so. */
class LockTimeout extends LockException
{
}

/** The lock is not held by this guard or with this token, or no longer. */
class NotOwned extends LockException
{
}

/** The lease ended while the lock was held. */
class LockLost extends LockException
{
}

/** The caller gave up waiting. */
class Cancelled extends LockException
{
}

/** The store did not answer, or could not serve, within the time limit or `store_timeout`, whichever is shorter; nothing is known of the lock. */
class Unavailable extends LockException
{
}

/** Too few servers of a quorum granted the lock. */
class QuorumFailed extends LockException
{
}

/** The address, an option or an argument is wrong. */
class InvalidConfig extends LockException
{
}

/** The store or layout cannot do what was asked. */
class Unsupported extends LockException
{
}

/** Something else lies under this lock's name: another kind of lock, or another program's data. */
class ForeignLayout extends LockException
{
}

/** Waiting would never end. */
class Deadlock extends LockException
{
}

/** A guard made before a fork was used in the child. */
class Forked extends LockException
{
}

/** The client was closed. */
class Closed extends LockException
{
}

/** The store refused the credentials, or they lack a right. */
class AuthFailed extends LockException
{
}

/** What answers at the address does not speak the store's protocol. */
class ProtocolError extends LockException
{
}

/** A bug in this library, or the operating system refused. */
class InternalError extends LockException
{
}

/** A record of the library. */
final class Arrival
{
    public mixed $index;
    public mixed $generation;
}

/** A record of the library. */
final class Counting
{
    public mixed $count;
}

/** A record of the library. */
final class Guarantees
{
    public mixed $store;
    public mixed $layout;
    public mixed $exclusiveUntil;
    public mixed $token;
    public mixed $fair;
    public mixed $reentrant;
    public mixed $shared;
    public mixed $push;
    public mixed $survivesDisconnect;
    public mixed $incarnation;
    public mixed $notes;
}

/** A record of the library. */
final class Health
{
    public mixed $took;
    public mixed $eviction;
    public mixed $mayEvict;
}

/** A record of the library. */
final class Holder
{
    public mixed $owner;
    public mixed $host;
    public mixed $pid;
    public mixed $language;
    public mixed $label;
    public mixed $heldFor;
    public mixed $remaining;
    public mixed $firstToken;
    public mixed $lastToken;
}

/** A record of the library. */
final class Inspection
{
    public mixed $name;
    public mixed $layout;
    public mixed $holder;
    public mixed $waiters;
    public mixed $ahead;
    public mixed $queue;
    public mixed $primitive;
    public mixed $shared;
    public mixed $latch;
}

/** A record of the library. */
final class Metrics
{
    public mixed $held;
    public mixed $waiting;
    public mixed $acquired;
    public mixed $reentered;
    public mixed $handOffs;
    public mixed $contended;
    public mixed $refused;
    public mixed $timeouts;
    public mixed $cancelled;
    public mixed $failed;
    public mixed $renewals;
    public mixed $renewalFailures;
    public mixed $requests;
    public mixed $roundTrips;
    public mixed $reconnects;
    public mixed $lost;
    public mixed $wait;
    public mixed $hold;
}

/** A record of the library. */
final class Part
{
    public mixed $holds;
    public mixed $holder;
}

/** A record of the library. */
final class Sharing
{
    public mixed $primitive;
    public mixed $permits;
    public mixed $holders;
    public mixed $unlisted;
}

/** A record of the library. */
final class Waiting
{
    public mixed $host;
    public mixed $pid;
    public mixed $language;
    public mixed $label;
    public mixed $waited;
    public mixed $rank;
    public mixed $wants;
}

/**
 * One place where locks are kept. Nothing is sent before the first use; its connection outlives the request, for the
 * next that connects alike. A forked child connects by itself at its next use.
 */
final class Client
{
    /**
     * Connects to the place that `url` names, else `LOCKWRIGHT_URL`, else a file of this user's.
     *
     * Times are numbers of seconds, or texts such as `10s` and `500ms`. What the address says goes before what is
     * given here. `prefix`: put before every lock name. `connectTimeout`: limit for making one connection (2).
     * `responseTimeout`: limit for one reply; after it the request is asked again (1). `storeTimeout`: how long an
     * operation goes on asking a store that does not answer (5). `ca`, `cert` and `key`: PEM files.
     * `credentials` returns an array of user and password, and is asked at every new connection, in the program's own
     * thread. When it throws, what needed the connection throws AuthFailed, which names the cause. While the program is
     * in `sleep` or the like it cannot be asked; then a connection fails that renews a lease, and is tried again.
     */
    public static function connect(
        ?string $url = null,
        ?string $prefix = null,
        int|float|string|null $connectTimeout = null,
        int|float|string|null $responseTimeout = null,
        int|float|string|null $storeTimeout = null,
        ?string $ca = null,
        ?string $cert = null,
        ?string $key = null,
        ?callable $credentials = null,
    ): Client {}

    /**
     * The lock called `name`. What is not given is as the address says, else as it says here.
     *
     * Times are numbers of seconds, or texts such as `10s`, `500ms` and `2m`. `ttl`: how long it stays ours without a
     * renewal, 20 ms to 24 hours (30). `timeout`: how long to wait for others (-1, for ever). `renew`: whether it is
     * renewed while it is held (true). `maxHold`: how long after the grant renewal ends (never). `atLeastFor`: how long
     * after the grant it stays taken however early it is released (0). `fair`: first come, first served over all
     * processes (false). `rank`: with `fair`, how urgent it is, 0 to 9 (0). `reentrant`: who holds it may acquire it
     * again (false). `revocable`: whether its holder listens for others who ask for it back (false), see
     * `Guard::onReleaseRequested`; only the layout `curator` has such a message. `layout`: how it lies in the store, and `format`: whose locks of that layout it joins. `retry`: an
     * array of the first and the longest pause of a waiter that nobody tells of its turn (0.002, 0.064). `label`: a text
     * that `inspect` shows.
     *
     * Throws InvalidConfig for what cannot be, and Unsupported for what this store or layout cannot do.
     */
    public function lock(
        string $name,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $reentrant = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): Lock {}

    /** The read/write lock called `name`. The options are those of `lock`, for both parts. */
    public function rwLock(
        string $name,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): RwLock {}

    /**
     * The semaphore called `name`, with `permits` permits, of which each acquisition takes `take`, all or none.
     *
     * Whoever first uses an idle one says how many permits it has, until it is resized. The other options are those of
     * `lock`.
     */
    public function semaphore(
        string $name,
        int $permits,
        ?int $take = null,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): Lock {}

    /** The locks called `names`, to be held all at once. Options are those of `lock`; the timeout is for all of them. */
    public function multiLock(
        array $names,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): MultiLock {}

    /** The lock `name` cut into 1 to 256 `segments`. Options are those of `lock`. */
    public function striped(
        string $name,
        int $segments,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): Striped {}

    /**
     * A job that one caller at a time does, such as to rebuild a cache entry. Options are those of `lock`.
     *
     * `look` returns null where there is no value that would do, else an array of the value and whether it is fresh.
     * `make` makes and keeps one; it is given the fencing token. `waits`: callers wait for a fresh value though there is
     * a stale one (false).
     */
    public function once(
        string $name,
        callable $look,
        callable $make,
        ?bool $waits = null,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $fair = null,
        ?int $rank = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
        ?string $label = null,
    ): Once {}

    /** One of many leads. Options are those of `lock`, but for `fair`, `rank` and `label`. */
    public function election(
        string $name,
        int|float|string|null $ttl = null,
        int|float|string|null $timeout = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?bool $revocable = null,
        ?string $layout = null,
        ?string $format = null,
        ?array $retry = null,
    ): Election {}

    /**
     * Takes over a lock that somebody exported; its token is higher than the exporter's. Nothing is waited for.
     *
     * Throws NotOwned when somebody resumed it before, or its time ran out and somebody else has the lock;
     * InvalidConfig for what is no secret.
     */
    public function resume(
        string $secret,
        int|float|string|null $ttl = null,
        ?bool $renew = null,
        int|float|string|null $maxHold = null,
        int|float|string|null $atLeastFor = null,
        ?string $layout = null,
        ?string $format = null,
        ?string $label = null,
    ): Guard {}

    /**
     * The latch called `name`, which is open once it was counted down `count` times, by whomever. It is forgotten
     * `idle` (60 s to 30 days, which is the default) after anybody last used it.
     */
    public function latch(string $name, int $count, int|float|string|null $idle = null): Latch {}

    /**
     * The barrier called `name`, which opens whenever `parties` (1 to 10,000) wait for it at the same time. The place
     * of a party that died stands for at most `ttl` more (30).
     */
    public function barrier(string $name, int $parties, int|float|string|null $ttl = null): Barrier {}

    /** Whether locks can be had here, now: acquires a lock of its own and gives it back. */
    public function ping(): Health {}

    /**
     * Begins nothing any more and waits until everything that this client holds was released, for at most `limit`.
     * The names of the locks that are still held.
     */
    public function drain(int|float|string $limit): array {}

    /** What locks of this client promise. */
    public function guarantees(): Guarantees {}

    /**
     * Throws Unsupported unless all of it is promised: of locks, or where `rwlock`, `semaphore`, `latch` or `barrier`
     * are named, of each of them. Nothing is sent.
     */
    public function require(
        ?bool $rwlock = null,
        ?bool $semaphore = null,
        ?bool $latch = null,
        ?bool $barrier = null,
        ?bool $fenced = null,
        ?bool $fair = null,
        ?bool $reentrant = null,
        ?bool $shared = null,
        ?bool $push = null,
        ?bool $failoverSafe = null,
    ): void {}

    /** What lies under `name`: who holds it, and how many wait; of a latch, how many are still to come. */
    public function inspect(string $name): Inspection {}

    /** The names of the locks there are. */
    public function list(): array {}

    /** Takes the lock from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
    public function breakLock(string $name, int|string $expectedToken): bool {}

    /** What this client did in this process so far. */
    public function metrics(): Metrics {}

    /** Gives back what is held and ends every wait with Closed. */
    public function close(): void {}

    /** The address without credentials. */
    public function address(): string {}
}

/** A named lock, a part of a read/write lock, or a semaphore. */
final class Lock
{
    /**
     * Waits for the lock, for at most `timeout`: what the lock's own option says where that is null, and without a
     * limit where it is -1. Throws LockTimeout when others held it all the time.
     */
    public function acquire(int|float|string|null $timeout = null): Guard {}

    /** The lock if it is free, else null. */
    public function tryAcquire(): ?Guard {}

    /**
     * Calls `work` with the guard while the lock is held, and returns what that returns. Throws LockLost when the lock
     * was lost meanwhile and the work threw nothing.
     */
    public function run(callable $work, int|float|string|null $timeout = null): mixed {}

    /** Takes the lock over from `secret`, as `Client::resume` does, with this lock's options. */
    public function resume(string $secret): Guard {}

    /** Who holds it, and how many wait for it. */
    public function inspect(): Inspection {}

    /** Takes it from whoever holds it under that token, which `inspect` shows. Whether somebody did. */
    public function breakLock(int|string $expectedToken): bool {}

    /**
     * Asks whoever holds it under that token, which `inspect` shows, to give it back. Whether somebody does. Whose lock is
     * `revocable` is told, here or with Curator, and goes on as it likes: `breakLock` takes it.
     */
    public function requestRelease(int|string $expectedToken): bool {}

    /** Of a semaphore: how many permits it has from now on. */
    public function resize(int $permits): void {}

    /** What it promises in its layout. */
    public function guarantees(): Guarantees {}

    /** Its name, without the prefix of the address. */
    public function name(): string {}
}

/** Many readers at once, or one writer, first come, first served. */
final class RwLock
{
    /** The reader's part. */
    public function read(): Lock {}

    /** The writer's part. */
    public function write(): Lock {}
}

/**
 * A lock that is held. It is given back by `release`, else when nothing refers to the object any more, else at the end
 * of the request, however that ends. In a forked child the parent's does nothing.
 */
final class Guard
{
    /**
     * The fencing token: whatever the lock protects refuses one that is lower than it has seen. An int, or a string
     * where it is beyond PHP_INT_MAX.
     */
    public function token(): int|string {}

    /** Changes only where tokens start again; goes before the token when two are compared. */
    public function epoch(): int|string {}

    /** The name of its lock. */
    public function name(): string {}

    /** How many times its owner holds it. */
    public function depth(): int {}

    /** Whether the lock is certainly held at this moment. */
    public function isHeld(): bool {}

    /** Seconds that the lock is certainly held without a further renewal. */
    public function remaining(): float {}

    /** Whether it was lost: it is over, and was not given back. */
    public function isLost(): bool {}

    /**
     * Calls `listener` with the reason, as `whyLost` has it, when the lock is lost before it is given back: in the
     * program's own thread, between two of its steps, also while it waits for another lock, but not within `sleep` or a
     * query. What it throws is thrown there; others that are due are told right after that was looked at.
     *
     * A listener that refers to the guard, as one does that has a `$this` with it, keeps it until PHP collects cycles,
     * unless it is released; a `static fn` does not.
     *
     * @param callable(string): mixed $listener
     */
    public function onLost(callable $listener): void {}

    /** Whether somebody asked for the lock back since it was granted; only known of one that is `revocable`. */
    public function releaseRequested(): bool {}

    /**
     * Calls `listener` once when somebody asks for the lock back before it is given back, soon if that was done already, and
     * never where the lock is not `revocable`; where and as `onLost` does. The lock stays held.
     *
     * @param callable(): mixed $listener
     */
    public function onReleaseRequested(callable $listener): void {}

    /** `expired`, `max_hold`, `abandoned`, `not_renewed`, `gone`, `broken` or `closed`; null unless it was lost. */
    public function whyLost(): ?string {}

    /**
     * Makes the lease last at least `ttl` from now, and at every renewal. Throws LockLost when the lock is not held any
     * more, and Unavailable when the store did not answer for `storeTimeout`: the lock stays held for as long as
     * `remaining` says.
     */
    public function extend(int|float|string $ttl): void {}

    /** However early it is released, the lock stays taken until `span` after it was acquired (at most 24 hours). */
    public function holdAtLeastFor(int|float|string $span): void {}

    /**
     * Leaves the lock to a secret, which `Client::resume` takes over within `ttl`, in this process or another. Treat
     * it as a password; this guard is dead.
     */
    public function export(int|float|string $ttl): string {}

    /** Of a read/write lock: the writer becomes a reader, and nobody else writes in between. The token stays. */
    public function downgrade(): void {}

    /** Of a read/write lock: whether this reader is the writer now, with a new token. It is if nobody else reads. */
    public function tryUpgrade(): bool {}

    /**
     * Gives the lock back, and says what the store found: `released`, `kept` (its owner still holds it), `expired` or
     * `stolen` (it was lost before), or `unknown` (free when its lease ends). Throws NotOwned the second time.
     */
    public function release(): string {}
}

/** Locks that are acquired together. */
final class MultiLock
{
    /** Waits for all of them, as `Lock::acquire` does for one. */
    public function acquire(int|float|string|null $timeout = null): MultiGuard {}

    /** Their names, in the order in which they are taken. */
    public function names(): array {}
}

/** Locks that are held together: the loss of one is the loss of all. Each is given back as its guard is. */
final class MultiGuard
{
    /**
     * The guard of each lock, which is like any other, to be released each at its own time.
     *
     * @return list<Guard>
     */
    public function guards(): array {}

    /** The token of each, by the name of its lock. */
    public function tokens(): array {}

    /** Whether all are certainly held at this moment. */
    public function isHeld(): bool {}

    /** Seconds that all are certainly held without a further renewal. */
    public function remaining(): float {}

    /** Whether one of them was lost. */
    public function isLost(): bool {}

    /** Why the first of them that was lost was, as `Guard::whyLost` has it; null while none is. */
    public function whyLost(): ?string {}

    /**
     * Calls `listener` with the reason once, when the first of them is lost; as `Guard::onLost`.
     *
     * @param callable(string): mixed $listener
     */
    public function onLost(callable $listener): void {}

    /** Makes every lease last `ttl` from now, and at every renewal. */
    public function extend(int|float|string $ttl): void {}

    /**
     * Gives all of them back in one write, and says what the store found of each, by the name of its lock. Throws the
     * first error, having tried all.
     */
    public function release(): array {}
}

/** A hot lock that is cut into segments. */
final class Striped
{
    /** How many segments there are. */
    public function count(): int {}

    /** The segment of a key. */
    public function indexFor(string $key): int {}

    /** The lock of the segment of a key. */
    public function forKey(string $key): Lock {}

    /** The lock of a segment. */
    public function segment(int $index): Lock {}

    /**
     * The same segments at more stores, so that none has all the load: those of this one and of $others, in turn. Every process
     * must name the same stores in the same order. One that cannot be reached is left out for ten seconds, while others answer.
     *
     * @throws InvalidConfig for more stores than segments
     * @throws Unsupported where another store cannot do what the options ask for
     */
    public function across(Client ...$others): Striped {}

    /** Any segment that is free and not sold out; null once all are sold out. */
    public function any(int|float|string|null $timeout = null): ?Segment {}

    /** Every segment may be chosen again. */
    public function restock(): void {}
}

/** A segment that is held. */
final class Segment
{
    /** Which one. */
    public function index(): int {}

    /** Its guard, which is like any other. */
    public function guard(): Guard {}

    /** Its fencing token. */
    public function token(): int|string {}

    /** Whether it is certainly held at this moment. */
    public function isHeld(): bool {}

    /**
     * Calls `listener` with the reason when it is lost, as `Guard::onLost`.
     *
     * @param callable(string): mixed $listener
     */
    public function onLost(callable $listener): void {}

    /** Gives it back, as `Guard::release`. */
    public function release(): string {}

    /** The same of one that has nothing left: this object of `Striped` does not choose it again until it is restocked. */
    public function soldOut(): string {}
}

/** Whoever waits goes on once so many have counted it down. */
final class Latch
{
    /** Waits until it is open. Whether it is; without a `timeout`, it is. */
    public function wait(int|float|string|null $timeout = null): bool {}

    /** Counts it down by one; how many are still to come. */
    public function countDown(): int {}

    /** How many are still to come; of a latch that nobody used yet, its count. */
    public function count(): int {}

    /** Has it count from `count`, if it is open or nobody used it yet. Whether it does. */
    public function trySetCount(int $count): bool {}

    /** Its name, without the prefix of the address. */
    public function name(): string {}
}

/** Opens whenever so many wait for it at the same time. */
final class Barrier
{
    /** Waits until all are there: which of them this one is, and in which generation; null when the time is over. */
    public function wait(int|float|string|null $timeout = null): ?Arrival {}

    /** How many wait now. */
    public function waiting(): int {}

    /** Its name, without the prefix of the address. */
    public function name(): string {}
}

/** A job that one caller at a time does, such as to rebuild a cache entry that expired. */
final class Once
{
    /** The value, fresh or as `make` made it; where somebody else makes it, the stale one, or what comes of waiting. */
    public function get(): mixed {}
}

/**
 * The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair`
 * and the server allows it.
 */
final class Election
{
    /** Waits to lead, and proclaims a text of at most 128 bytes from then on. Releasing the guard resigns. */
    public function campaign(string $proclaims, int|float|string|null $timeout = null): Guard {}

    /**
     * Campaigns, calls `work` with the guard while this one leads, and returns what that returns; then it resigns.
     *
     * The work has to look at `isHeld`, or to throw in a listener of `onLost`, and to end soon once leadership is lost:
     * then this campaigns again, and what the work returned is dropped. A LockLost that the work throws because of that
     * is no error. A store that does not answer is asked again every 0.5 s. Throws what the work throws, having
     * resigned, and else what `campaign` throws, but neither Unavailable nor LockLost.
     *
     * @template T
     * @param callable(Guard): T $work
     * @return T
     */
    public function run(string $proclaims, callable $work): mixed {}

    /**
     * Who leads now: an array of `proclaims`, `host`, `pid`, `language`, `token` (higher with every leader) and
     * `leadsFor` (seconds, where the store can tell); null when nobody does.
     */
    public function leader(): ?array {}

    /**
     * Waits until somebody else leads than the one with the token `known`, looking each `every` (0.5 s); null when
     * nobody leads any more. `every` is 0.001 to 86,400 s: another is InvalidConfig.
     */
    public function changed(int|string|null $known = null, int|float|string|null $every = null): ?array {}
}

/** A distribution of times from 1 us to 19 hours, in seconds, each kept to two digits. */
final class Histogram
{
    /** How many times it has. */
    public function count(): int {}

    /** The sum of all, in seconds. */
    public function sum(): float {}

    /** The longest of all, in seconds. */
    public function max(): float {}

    /** The time within which the fraction `q` (0 to 1) of all lies; 0 while there is none. */
    public function quantile(float $q): float {}

    /** How many are not longer than `bound`: what a cumulative bucket of Prometheus counts. */
    public function atMost(int|float|string $bound): int {}
}

/** Where the library's events go. */
final class Log
{
    /**
     * Has every event of `level` (`error`, `warning`, which is the default, `info` or `debug`) and above told to
     * `logger`, a `Psr\Log\LoggerInterface`, until the request ends; with null to nobody any more. It is called in the
     * program's own thread, between two of its steps and while it waits for a lock. The context has `target`, such as
     * `lockwright::lost`, `at`, in seconds since 1970, and what the event has.
     *
     * What the logger throws becomes a warning of PHP's. Throws InvalidConfig for another level.
     */
    public static function to(?object $logger, ?string $level = null): void {}
}

/** How to have a token checked by what a lock protects. */
final class Kit
{
    /** The name of the header that a token travels in. */
    public const HEADER = "If-Fence";

    /** A script for Redis that sets a key unless a higher token did. */
    public const SET_SCRIPT = '';

    /**
     * A condition for the `WHERE` of an `UPDATE` that sets `column` to the token: rows that a higher token wrote stay
     * as they are. That it changed no row means that the token is stale, or the row is not there. Throws
     * `InvalidConfig` for a column or a placeholder that is empty, has more than 1024 bytes or a control character.
     */
    public static function sqlCondition(string $column, ?string $placeholder = null): string {}

    /**
     * The keys below `key`, a lock's name with the address's prefix before it, in a store of keys and revisions: from
     * the first to before the second. A transaction that compares the creation revisions of this range with the token
     * to be *not equal* finds them so once the lock is lost; what is to be written only while it is held stands in
     * its `else`. Throws `InvalidConfig` for what is no lock's key: empty, above 1536 bytes, or with a control character.
     */
    public static function keyRange(string $key): array {}

    /**
     * The number by which PostgreSQL knows the advisory lock of `key`, a lock's name with the address's prefix before it.
     * A transaction that takes it itself, by `pg_advisory_xact_lock`, and the holders of that lock in layout `advisory`
     * exclude one another. Throws `InvalidConfig` as `keyRange` does.
     */
    public static function advisoryKey(string $key): int {}

    /** The value of the header. */
    public static function headerValue(int|string $token, int|string|null $epoch = null): string {}

    /** Epoch and token of a header; null for what is none. What comes without one is to be refused as well. */
    public static function readHeader(string $value): ?array {}

    /** Every name that this extension must have, and the class of each error: for its own test. */
    public static function manifest(): array {}
}
