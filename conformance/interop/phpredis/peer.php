<?php
// phpredis with the lock of lock.php as a peer: it obeys those commands of a shim that this recipe can obey, which
// conformance/README.md describes. It has no token, so 0 stands for it, and never renews. PHP has no threads: each command is
// answered by a process of its own.

require __DIR__ . '/lock.php';

const POLL_US = 10_000;
const TTL = 30.0;

final class Failed extends Exception
{
    public function __construct(public string $name, string $message, public bool $retryable = false)
    {
        parent::__construct($message);
    }
}

/** One hold, and until when it lasts. */
final class Held
{
    public function __construct(
        public string $client,
        public string $key,
        public string $requestId,
        public int $until = 0,
    ) {
    }

    public function remaining(): float
    {
        return max(0.0, ($this->until - now()) / 1e9);
    }
}

/** PHP has the time since boot to a hundredth of a second only, and a clock that stops while the machine sleeps. */
function slept(): int
{
    $uptime = fn () => (int) round((float) explode(' ', file_get_contents('/proc/uptime'))[0] * 1e9);
    for ($before = $after = $uptime(); $after === $before; $after = $uptime());
    $behind = $after - hrtime(true);

    return $behind < 20_000_000 ? 0 : $behind;
}

function now(): int
{
    static $slept = null;

    return hrtime(true) + ($slept ??= slept());
}

/** A process that was forked leaves its parent's connection alone. */
function redis(string $uri): Redis
{
    static $connections = [];
    $redis = $connections[getmypid()] ?? null;
    if ($redis === null) {
        $address = parse_url($uri);
        $redis = $connections[getmypid()] = new Redis();
        $redis->connect($address['host'], $address['port']);
    }

    return $redis;
}

/** Writes a line at once, however many processes do. */
function say(array $line): void
{
    fwrite(STDOUT, json_encode($line) . "\n");
}

/** Waits for as long as it takes where there is no timeout; null when it is over. */
function acquire(Held $held, float $ttl, ?float $timeout): ?Held
{
    $giveUp = $timeout === null ? INF : hrtime(true) / 1e9 + $timeout;
    $parent = posix_getppid();
    // Who asked may be gone meanwhile.
    while (posix_getppid() === $parent) {
        $asked = now();
        if (RedisTool::tryGetLock(redis($held->client), $held->key, $held->requestId, (int) ceil($ttl * 1000))) {
            $held->until = $asked + (int) ($ttl * 1e9);

            return $held;
        }
        if (hrtime(true) / 1e9 >= $giveUp) {
            return null;
        }
        usleep(POLL_US);
    }

    return null;
}

function release(Held $held): string
{
    return RedisTool::releaseLock(redis($held->client), $held->key, $held->requestId) ? 'released' : 'stolen';
}

function acquired(?Held $held): array
{
    if ($held === null) {
        throw new Failed('timeout', 'the lock was not had in time', true);
    }

    return ['token' => 0, 'depth' => 1, 'remaining' => $held->remaining()];
}

/** The recipe has no extension: its users write this one beside it. */
function extend(Held $held, float $ttl): array
{
    $lua = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";
    if (redis($held->client)->eval($lua, [$held->key, $held->requestId, (int) ($ttl * 1000)], 1) !== 1) {
        throw new Failed('lost', 'the lock is not ours any more');
    }

    return [];
}

function state(Held $held): array
{
    $left = redis($held->client)->pttl($held->key);
    $isHeld = redis($held->client)->get($held->key) === $held->requestId;

    return ['held' => $isHeld, 'remaining' => $isHeld ? $left / 1000 : 0, 'why' => null, 'token' => 0, 'depth' => 1];
}

/** Counts up under the lock, and logs it as a shim's `work` does. */
function work(array $command, string $uri, string $task): void
{
    $log = fopen($command['log'], 'a');
    $note = function (int $at, array $event) use ($log, $task): void {
        fwrite($log, json_encode(['at' => $at, 'pid' => getmypid(), 'task' => $task, 'token' => 0] + $event) . "\n");
    };
    for ($done = 0; $done < $command['increments']; $done++) {
        $asked = now();
        $held = acquire(hold($command, $uri), $command['ttl'] ?? TTL, null);
        $note(now(), ['event' => 'grant', 'asked' => $asked, 'until' => $held->until]);
        $begin = now();
        $value = count_up($task, $command['counter']);
        $at = now();
        $note($at, ['event' => 'increment', 'begin' => $begin, 'value' => $value, 'held' => $at < $held->until, 'until' => $held->until]);
        $outcome = release($held);
        $note(now(), ['event' => 'released', 'outcome' => $outcome]);
    }
}

/** Not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one. */
function count_up(string $task, string $counter): int
{
    $value = (is_file($counter) ? (int) file_get_contents($counter) : 0) + 1;
    file_put_contents("$counter.$task", (string) $value);
    rename("$counter.$task", $counter);

    return $value;
}

function tasks(array $command, string $uri): array
{
    for ($i = 0; $i < $command['tasks']; $i++) {
        aside(fn () => work($command, $uri, "{$command['name']}-$i"));
    }
    while (pcntl_wait($status) > 0) {
        if ($status !== 0) {
            throw new Failed('error', "a task ended with status $status");
        }
    }

    return [];
}

function hold(array $command, string $uri): Held
{
    return new Held($uri, $command['lock'], bin2hex(random_bytes(8)) . '-' . getmypid());
}

/** Does it in a process of its own. */
function aside(callable $work): void
{
    if (pcntl_fork() === 0) {
        $work();
        exit(0);
    }
}

function answer(array $command, callable $work): void
{
    try {
        say(['id' => $command['id'], 'ok' => (object) $work(), 'at' => now()]);
    } catch (Throwable $error) {
        $code = $error instanceof Failed ? $error->name : $error::class;
        $retryable = $error instanceof Failed && $error->retryable;
        $told = ['code' => $code, 'retryable' => $retryable, 'message' => $error->getMessage()];
        say(['id' => $command['id'], 'at' => now(), 'error' => $told]);
    }
}

$uris = $guards = [];
now();
say(['pid' => getmypid(), 'language' => 'phpredis', 'version' => phpversion('redis')]);
while (($line = fgets(STDIN)) !== false) {
    while (pcntl_wait($status, WNOHANG) > 0);
    $command = json_decode($line, true);
    $do = $command['do'];
    if ($do === 'exit') {
        break;
    }
    if ($do === 'open') {
        $uris[$command['client']] = $command['uri'];
        answer($command, fn () => []);
        continue;
    }
    $uri = $uris[$command['client'] ?? ''] ?? '';
    // The request id is known before anything is asked, so that whatever process may give the lock back.
    if ($do === 'acquire' || $do === 'try') {
        $guards[$command['guard']] = hold($command, $uri);
    }
    $held = $guards[$command['guard'] ?? ''] ?? null;
    $ttl = $command['ttl'] ?? TTL;
    aside(fn () => answer($command, fn () => match ($do) {
        'acquire' => acquired(acquire($held, $ttl, $command['timeout'] ?? null)),
        'try' => ($had = acquire($held, $ttl, 0.0)) === null ? ['taken' => true] : acquired($had),
        'release' => ['outcome' => release($held)],
        'extend' => extend($held, $ttl),
        'state' => state($held),
        'work' => tasks($command, $uri),
        default => throw new Failed('error', "phpredis cannot $do"),
    }));
}
