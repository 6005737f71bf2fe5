<?php
// What programs share that play another PHP library: those commands of a shim that such a library can obey, which
// conformance/README.md describes. A lock of another library has no token, so 0 stands for it. PHP has no threads: each command is
// answered by a process of its own.

const POLL_US = 10_000;
const TTL = 30.0;

final class Failed extends Exception
{
    public function __construct(public string $name, string $message, public bool $retryable = false)
    {
        parent::__construct($message);
    }
}

/** One hold. Whatever process takes it, another may give it back: so what it is called is known from the beginning. */
abstract class Held
{
    /** By our clock, in nanoseconds. */
    public int $until = 0;

    abstract public function take(float $ttl): bool;

    /** What a release comes to. */
    abstract public function release(): string;

    /** Whether it was still there to be extended. */
    abstract public function extend(float $ttl): bool;

    /** For how many seconds it is still there, as its server says: 0 where it is not. */
    abstract public function left(): float;

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
        if ($held->take($ttl)) {
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

function acquired(?Held $held): array
{
    if ($held === null) {
        throw new Failed('timeout', 'the lock was not had in time', true);
    }

    return ['token' => 0, 'depth' => 1, 'remaining' => $held->remaining()];
}

function state(Held $held): array
{
    $left = $held->left();

    return ['held' => $left > 0, 'remaining' => $left, 'why' => null, 'token' => 0, 'depth' => 1];
}

function extend(Held $held, float $ttl): array
{
    if (!$held->extend($ttl)) {
        throw new Failed('lost', 'the lock is not ours any more');
    }

    return [];
}

/** Counts up under the lock, and logs it as a shim's `work` does. */
function work(array $command, callable $hold, string $task): void
{
    $log = fopen($command['log'], 'a');
    $note = function (int $at, array $event) use ($log, $task): void {
        fwrite($log, json_encode(['at' => $at, 'pid' => getmypid(), 'task' => $task, 'token' => 0] + $event) . "\n");
    };
    for ($done = 0; $done < $command['increments']; $done++) {
        $asked = now();
        $held = acquire($hold($command), $command['ttl'] ?? TTL, null);
        $note(now(), ['event' => 'grant', 'asked' => $asked, 'until' => $held->until]);
        $begin = now();
        $value = count_up($task, $command['counter']);
        $at = now();
        $note($at, ['event' => 'increment', 'begin' => $begin, 'value' => $value, 'held' => $at < $held->until, 'until' => $held->until]);
        $outcome = $held->release();
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

function tasks(array $command, callable $hold): array
{
    for ($i = 0; $i < $command['tasks']; $i++) {
        aside(fn () => work($command, $hold, "{$command['name']}-$i"));
    }
    while (pcntl_wait($status) > 0) {
        if ($status !== 0) {
            throw new Failed('error', "a task ended with status $status");
        }
    }

    return [];
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

/** Obeys, as that library of that version, of which `hold` makes a hold at an address under a name. */
function play(string $library, string $version, callable $hold): void
{
    $uris = $guards = [];
    now();
    say(['pid' => getmypid(), 'language' => $library, 'version' => $version]);
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
        $made = fn (array $command) => $hold($uris[$command['client'] ?? ''] ?? '', $command['lock']);
        if ($do === 'acquire' || $do === 'try') {
            $guards[$command['guard']] = $made($command);
        }
        $held = $guards[$command['guard'] ?? ''] ?? null;
        $ttl = $command['ttl'] ?? TTL;
        aside(fn () => answer($command, fn () => match ($do) {
            'acquire' => acquired(acquire($held, $ttl, $command['timeout'] ?? null)),
            'try' => ($had = acquire($held, $ttl, 0.0)) === null ? ['taken' => true] : acquired($had),
            'release' => ['outcome' => $held->release()],
            'extend' => extend($held, $ttl),
            'state' => state($held),
            'work' => tasks($command, $made),
            default => throw new Failed('error', "$library cannot $do"),
        }));
    }
}
