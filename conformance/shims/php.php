<?php
// The shim of the PHP face. The README of this folder's parent says what a shim does. PHP has one thread: while a command waits for
// a lock, an alarm has it look for the next one, which is done on top of that; what waits below goes on once it is through.
declare(strict_types=1);

use Lockwright\{Client, Guard, LockException, LockTimeout};

const SPANS = ['timeout', 'ttl', 'max_hold', 'at_least_for'];
const OPTIONS = ['renew', 'fair', 'rank', 'revocable', 'label', 'layout', 'format'];

/** What PHP has no function for. */
final class Libc
{
    private static ?FFI $libc = null;

    private static function libc(): FFI
    {
        return self::$libc ??= FFI::cdef('struct timespec { long s; long ns; }; int clock_gettime(int, struct timespec *); struct timer { long every_s; long every_us; long first_s; long first_us; }; int setitimer(int, struct timer *, void *);');
    }

    /** CLOCK_BOOTTIME. */
    public static function now(): int
    {
        $time = self::libc()->new('struct timespec');
        self::libc()->clock_gettime(7, FFI::addr($time));
        return $time->s * 1_000_000_000 + $time->ns;
    }

    /** Has SIGALRM sent to this process again and again; not at all with 0. */
    public static function alarmEvery(int $microseconds): void
    {
        $timer = self::libc()->new('struct timer');
        $timer->every_us = $timer->first_us = $microseconds;
        self::libc()->setitimer(0, FFI::addr($timer), null);
    }
}

/** What waits is given up. */
final class GivenUp extends Exception
{
}

function camel(string $name): string
{
    return lcfirst(str_replace('_', '', ucwords($name, '_')));
}

function snake(mixed $of): mixed
{
    if (is_object($of) || is_array($of)) {
        $told = [];
        foreach ((array) $of as $name => $value) {
            $name = is_int($name) ? $name : strtolower(preg_replace('/[A-Z]/', '_$0', $name));
            $told[$name] = $name === 'remaining' ? min($value, 1e15) : snake($value);
        }
        return $told;
    }
    return $of;
}

function span(mixed $of): mixed
{
    return match ($of) {
        'nan' => NAN, 'inf' => INF, '-inf' => -INF, default => is_numeric($of) ? (float) $of : $of,
    };
}

function options(array $command): array
{
    $options = [];
    foreach (OPTIONS as $name) {
        if (isset($command[$name])) {
            $options[camel($name)] = $command[$name];
        }
    }
    foreach (SPANS as $name) {
        if (isset($command[$name])) {
            $options[camel($name)] = span($command[$name]);
        }
    }
    return $options;
}

function name(array $command): string
{
    if (!isset($command['lock_utf16'])) {
        return $command['lock'];
    }
    // A half of a pair has no UTF-8: it is written as its number would be.
    $bytes = fn (int $unit) => $unit < 0x80 ? chr($unit) : ($unit < 0x800 ? chr(0xc0 | $unit >> 6) . chr(0x80 | $unit & 0x3f)
        : chr(0xe0 | $unit >> 12) . chr(0x80 | $unit >> 6 & 0x3f) . chr(0x80 | $unit & 0x3f));
    return implode('', array_map($bytes, $command['lock_utf16']));
}

/** What a working task says of itself, and the counter that it raises. */
final class Log
{
    public function __construct(private string $task, private array $command)
    {
    }

    public function increment(object $guard, int $asked): void
    {
        $at = Libc::now();
        $units = ($this->command['share'] ?? '') === 'write' ? 1 << 30 : ($this->command['take'] ?? 1);
        $this->note($guard, $at, ['event' => 'grant', 'asked' => $asked, 'until' => $at + (int) ($guard->remaining() * 1e9), 'units' => $units]);
        $begin = Libc::now();
        $counter = $this->command['counter'];
        $value = (int) @file_get_contents($counter) + 1;
        file_put_contents("$counter.$this->task", $value);
        rename("$counter.$this->task", $counter);
        $at = Libc::now();
        $held = $guard->isHeld();
        $this->note($guard, $at, ['event' => 'increment', 'begin' => $begin, 'value' => $value, 'held' => $held, 'until' => $at + (int) ($guard->remaining() * 1e9)]);
        if ($why = state($guard)['why']) {
            $this->note($guard, Libc::now(), ['event' => 'lost', 'why' => $why]);
        }
    }

    public function note(object $guard, int $at, array $event): void
    {
        $record = ['at' => $at, 'pid' => getmypid(), 'task' => $this->task, 'token' => token($guard, $this->command)] + $event;
        file_put_contents($this->command['log'], json_encode($record) . "\n", FILE_APPEND);
    }
}

function token(object $guard, array $command): int
{
    return $guard instanceof Lockwright\MultiGuard ? $guard->tokens()[name($command)] : $guard->token();
}

function state(object $guard): array
{
    $state = ['held' => $guard->isHeld(), 'remaining' => method_exists($guard, 'remaining') ? $guard->remaining() : 0.0];
    return $guard instanceof Lockwright\Guard
        ? $state + ['why' => $guard->whyLost(), 'token' => $guard->token(), 'depth' => $guard->depth()] : $state + ['why' => null];
}

final class Shim
{
    /** @var array<string, Client> */
    private array $clients = [];
    private array $urls = [];
    private array $guards = [];
    private array $stocks = [];
    /** The commands that go on, the one on top last. */
    private array $doing = [];
    private string $read = '';
    private bool $over = false;

    public function main(): void
    {
        if (getenv('LOCKWRIGHT_SHIM_LOGS')) {
            Lockwright\Log::to($this, 'debug');
        }
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => $this->serve());
        stream_set_blocking(STDIN, false);
        $this->say(['pid' => getmypid(), 'language' => 'php', 'resets' => true]);
        while (!$this->over) {
            // Again and again: what the library tells comes between two steps.
            [$ready, $none] = [[STDIN], null];
            @stream_select($ready, $none, $none, 0, 20_000);
            $line = $this->line();
            if ($line !== null) {
                // Not in the signal's handler, which PHP does not call again before it returns.
                Libc::alarmEvery(20_000);
                $this->command($line);
                Libc::alarmEvery(0);
            }
        }
    }

    public function log(string $level, string $message, array $context): void
    {
        fwrite(STDERR, "$level $message " . json_encode($context, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
    }

    /** Does what there is to do by now. */
    private function serve(): void
    {
        while (!$this->over && ($line = $this->line()) !== null) {
            $this->command($line);
        }
    }

    private function command(string $line): void
    {
        $command = json_decode($line, true);
        $this->over = $command['do'] === 'exit';
        $this->over || $this->answer($command);
    }

    private function line(): ?string
    {
        while (($end = strpos($this->read, "\n")) === false) {
            $more = fread(STDIN, 65536);
            if ($more === false || $more === '') {
                $this->over = $this->over || feof(STDIN);
                return null;
            }
            $this->read .= $more;
        }
        $line = substr($this->read, 0, $end);
        $this->read = substr($this->read, $end + 1);
        return $line;
    }

    private function say(array $line): void
    {
        fwrite(STDOUT, json_encode($line, JSON_PRESERVE_ZERO_FRACTION | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
    }

    private function answer(array $command): void
    {
        $this->doing[] = $command['id'];
        try {
            $ok = $this->{camel('do_' . $command['do'])}($command);
            $ok === null || $this->ok($command, $ok);
        } catch (GivenUp $error) {
            if ($error->getMessage() !== (string) $command['id']) {
                throw $error;
            }
            $this->fails($command, 'cancelled', false, $error);
        } catch (LockException $error) {
            $this->fails($command, $error->getCode(), $error->retryable, $error);
        } catch (Throwable $error) {
            $this->fails($command, get_class($error), false, $error);
        } finally {
            array_pop($this->doing);
        }
    }

    private function ok(array $command, array $ok): void
    {
        $at = $ok['at'] ?? Libc::now();
        unset($ok['at']);
        $this->say(['id' => $command['id'], 'at' => $at, 'ok' => (object) $ok]);
    }

    private function fails(array $command, string $code, bool $retryable, Throwable $error): void
    {
        $this->say(['id' => $command['id'], 'at' => Libc::now(), 'error' => ['code' => $code, 'retryable' => $retryable,
            'message' => $error->getMessage(), 'debug' => (string) $error]]);
    }

    /** Gives up the wait on which this command is done; the one that waits is the one below it. */
    private function doCancel(array $command): ?array
    {
        $waits = $this->doing[count($this->doing) - 2] ?? null;
        if ($waits !== $command['command']) {
            return [];
        }
        $this->ok($command, []);
        throw new GivenUp((string) $waits);
    }

    private function doLost(array $command): ?array
    {
        $guard = $this->guards[$command['guard']];
        $guard->onLost(fn (string $why) => $this->ok($command, ['why' => $why]));
        return null;
    }

    private function doLead(array $command): array
    {
        [$reigns, $election, $gate] = [0, $this->election($command), $this->client($command)->lock($command['gate'], ...options($command))];
        $token = $election->run($command['proclaims'], function (Guard $guard) use (&$reigns, $gate) {
            for ($reigns++; !$guard->isLost(); usleep(5_000)) {
                if ($gate->tryAcquire()?->release()) {
                    return $guard->token();
                }
            }
        });
        return ['token' => $token, 'reigns' => $reigns];
    }

    private function client(array $command): Client
    {
        return $this->clients[$command['client']];
    }

    private function lock(Client $client, array $command): object
    {
        [$name, $options] = [name($command), options($command)];
        return match (true) {
            isset($command['with']) => $client->multiLock([...$command['with'], $name], ...$options),
            isset($command['permits']) => $client->semaphore($name, $command['permits'], $command['take'] ?? 1, ...$options),
            isset($command['share']) => $client->rwLock($name, ...$options)->{$command['share']}(),
            default => $client->lock($name, ...$options, ...(isset($command['owner']) ? ['reentrant' => true] : [])),
        };
    }

    private function keep(array $command, object $guard): array
    {
        $at = Libc::now();
        $this->guards[$command['guard']] = $guard;
        return ['at' => $at, 'token' => token($guard, $command), 'depth' => state($guard)['depth'] ?? 1, 'remaining' => state($guard)['remaining']];
    }

    private function doOpen(array $command): array
    {
        $this->clients[$command['client']] = Client::connect($command['uri']);
        $this->urls[$command['client']] = $command['uri'];
        return ['shown' => 'Lockwright\Client ' . $this->client($command)->address()];
    }

    private function doGuarantees(array $command): array
    {
        return snake($this->client($command)->guarantees());
    }

    private function doRequire(array $command): array
    {
        $this->client($command)->require(...array_fill_keys(array_map(camel(...), $command['wants']), true));
        return [];
    }

    private function doAcquire(array $command): array
    {
        return $this->keep($command, $this->lock($this->client($command), $command)->acquire());
    }

    private function doTry(array $command): array
    {
        $lock = $this->lock($this->client($command), $command);
        try {
            $guard = $lock instanceof Lockwright\MultiLock ? $lock->acquire(timeout: 0) : $lock->tryAcquire();
        } catch (LockTimeout) {
            $guard = null;
        }
        return $guard === null ? ['taken' => true] : $this->keep($command, $guard);
    }

    private function doRelease(array $command): array
    {
        $guard = $this->guards[$command['guard']];
        $outcome = $guard->release();
        $outcome = is_array($outcome) ? $outcome[array_key_first($outcome)] : $outcome;
        return ['outcome' => $outcome] + ($outcome === 'kept' ? ['kept' => $guard->depth() - 1] : []);
    }

    private function doExtend(array $command): array
    {
        $this->guards[$command['guard']]->extend(span($command['ttl']));
        return [];
    }

    private function doDowngrade(array $command): array
    {
        $this->guards[$command['guard']]->downgrade();
        return [];
    }

    private function doUpgrade(array $command): array
    {
        return ['upgraded' => $this->guards[$command['guard']]->tryUpgrade()];
    }

    private function doResize(array $command): array
    {
        $this->client($command)->semaphore(name($command), 1)->resize($command['permits']);
        return [];
    }

    private function doExport(array $command): array
    {
        return ['secret' => $this->guards[$command['guard']]->export(span($command['ttl']))];
    }

    private function doResume(array $command): array
    {
        $client = $this->client($command);
        return $this->keep($command, isset($command['lock'])
            ? $this->lock($client, $command)->resume($command['secret']) : $client->resume($command['secret'], ...options($command)));
    }

    private function doHoldAtLeastFor(array $command): array
    {
        $this->guards[$command['guard']]->holdAtLeastFor(span($command['span']));
        return [];
    }

    private function doPing(array $command): array
    {
        $health = $this->client($command)->ping();
        return ['took' => $health->took, 'may_evict' => $health->mayEvict];
    }

    private function doDrain(array $command): array
    {
        return ['held' => $this->client($command)->drain(span($command['limit']))];
    }

    private function doCount(array $command): array
    {
        (new Log($command['name'], $command))->increment($this->guards[$command['guard']], $command['asked']);
        return [];
    }

    private function striped(array $command): Lockwright\Striped
    {
        $key = "$command[client] $command[lock] $command[segments]";
        return $this->stocks[$key] ??= $this->client($command)->striped($command['lock'], $command['segments'], ...options($command));
    }

    private function doSegment(array $command): array
    {
        $striped = $this->striped($command);
        if (isset($command['key'])) {
            return $this->keep($command, $striped->forKey($command['key'])->acquire()) + ['index' => $striped->indexFor($command['key'])];
        }
        $segment = $striped->any(span($command['timeout'] ?? null));
        return $segment === null ? ['none' => true] : $this->keep($command, $segment) + ['index' => $segment->index()];
    }

    private function doSoldOut(array $command): array
    {
        return ['outcome' => $this->guards[$command['guard']]->soldOut()];
    }

    private function doRestock(array $command): array
    {
        $this->striped($command)->restock();
        return [];
    }

    private function doOnce(array $command): array
    {
        [$client, $made, $file] = [$this->client($command), false, $command['value']];
        $look = function () use ($file) {
            $found = @file_get_contents($file);
            return $found === false ? null : [(int) $found, !str_contains($found, 'stale')];
        };
        $make = function (int $token) use ($look, $file, &$made, $command, $client) {
            $made = true;
            if (isset($command['gate'])) {
                $client->lock($command['gate'], ...options($command))->acquire()->release();
            }
            $value = ($look()[0] ?? 0) + 1;
            file_put_contents("$file.making", $value);
            rename("$file.making", $file);
            return $value;
        };
        $value = $client->once($command['lock'], $look, $make, (bool) ($command['waits'] ?? false), ...options($command))->get();
        return ['value' => $value, 'made' => $made];
    }

    private function election(array $command): Lockwright\Election
    {
        return $this->client($command)->election($command['lock'], ...options($command));
    }

    private function doCampaign(array $command): array
    {
        return $this->keep($command, $this->election($command)->campaign($command['proclaims']));
    }

    private static function shown(?array $leader): array
    {
        return ['leader' => $leader === null ? null : array_intersect_key($leader, array_flip(['proclaims', 'pid', 'language', 'token']))];
    }

    private function doLeader(array $command): array
    {
        return self::shown($this->election($command)->leader());
    }

    private function doChanged(array $command): array
    {
        return self::shown($this->election($command)->changed($command['known'] ?? null, span($command['every'])));
    }

    private function doLatch(array $command): array
    {
        $with = array_values(array_filter([$command['to'] ?? null, span($command['timeout'] ?? null)], fn ($given) => $given !== null));
        return ['answer' => $this->client($command)->latch($command['lock'], $command['count'])->{camel($command['asks'])}(...$with)];
    }

    private function doBarrier(array $command): array
    {
        $barrier = $this->client($command)->barrier($command['lock'], $command['parties'], span($command['ttl'] ?? null));
        if ($command['asks'] === 'waiting') {
            return ['waiting' => $barrier->waiting()];
        }
        $generations = [];
        for ($i = 0; $i < ($command['times'] ?? 1); $i++) {
            $arrival = $barrier->wait(span($command['timeout'] ?? null));
            if ($arrival === null) {
                return ['passed' => false];
            }
            $generations[] = $arrival->generation;
        }
        return ['passed' => true, 'index' => $arrival->index, 'generations' => $generations];
    }

    private function doState(array $command): array
    {
        return state($this->guards[$command['guard']]);
    }

    private function doDrop(array $command): array
    {
        unset($this->guards[$command['guard']]);
        return [];
    }

    private function doInspect(array $command): array
    {
        return snake($this->client($command)->inspect(name($command)));
    }

    private function doList(array $command): array
    {
        return ['names' => $this->client($command)->list()];
    }

    private function doBreak(array $command): array
    {
        return ['broken' => $this->client($command)->breakLock(name($command), $command['token'])];
    }

    private function doClose(array $command): array
    {
        $this->client($command)->close();
        return [];
    }

    private function doReset(array $command): array
    {
        foreach ($this->clients as $client) {
            $client->close();
        }
        [$this->clients, $this->urls, $this->guards, $this->stocks] = [[], [], [], []];
        return [];
    }

    private function doWork(array $command): array
    {
        $retries = [];
        for ($i = 0; $i < $command['tasks']; $i++) {
            $client = $this->client($command);
            if ($command['own_clients'] ?? false) {
                $client = $this->clients["$command[client]/$i"] ??= Client::connect($this->urls[$command['client']]);
            }
            array_push($retries, ...$this->increments($this->lock($client, $command), "$command[name]-$i", $command));
        }
        return ['retries' => $retries];
    }

    /** @return list<string> the codes of what was tried again */
    private function increments(object $lock, string $task, array $command): array
    {
        [$log, $retries] = [new Log($task, $command), []];
        for ($done = 0; $done < $command['increments'];) {
            try {
                $asked = Libc::now();
                $guard = $lock->acquire();
                $log->increment($guard, $asked);
                $outcome = $guard->release();
                $outcome = is_array($outcome) ? $outcome[name($command)] : $outcome;
                $log->note($guard, Libc::now(), ['event' => 'released', 'outcome' => $outcome]);
                $done++;
            } catch (LockException $error) {
                $error->retryable || throw $error;
                $retries[] = $error->getCode();
            }
        }
        return $retries;
    }
}

(new Shim())->main();
