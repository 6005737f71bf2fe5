<?php
// The protocol of bench/README.md for contenders written in PHP. PHP has no threads: each task of a crowd is a process.
declare(strict_types=1);

const COMPARE_AND_DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** What a contender is called and takes part in, and how it is used; each one derives from this. */
abstract class Contender
{
    public string $name;
    public string $role = 'peer';
    /** @var list<string> */
    public array $rows = [];
    /** The commands of the server's statistics that are its requests. */
    public array $requests = [];
    /** The extensions of PHP without which it is absent. */
    public array $extensions = [];
    /** Where Symfony's locks are, if it uses them. */
    public ?string $symfony = null;

    /** Why it cannot be measured here, if so. */
    public function absent(): ?string
    {
        $missing = array_filter($this->extensions, fn ($extension) => !extension_loaded($extension));
        if ($missing) {
            return 'PHP has no extension ' . implode(' and ', $missing) . ' here';
        }
        return $this->symfony && !stream_resolve_include_path($this->symfony) ? 'there is no Symfony Lock here' : null;
    }

    public function connect(string $url): void
    {
    }

    /** @return array{callable(): mixed, callable(mixed): mixed} what acquires the lock, and what releases what that returned */
    abstract public function task(string $key): array;

    public function cold(string $url): void
    {
        $this->connect($url);
        [$acquire, $release] = $this->task('bench:cold');
        $held = $acquire();
        echo "held\n";
        $release($held);
    }

    public function work(string $url): void
    {
        $this->connect($url);
        $free = $this->task('bench:free');
        echo "ready\n";
        while (($line = fgets(STDIN)) !== false) {
            [$command, $number, $which] = [...explode(' ', trim($line)), '', ''];
            echo json_encode(match ($command) {
                'pairs' => pairs((int) $number, ...$free),
                'crowd' => $this->crowd($url, (int) $number, $which === 'own', $free),
                default => throw new RuntimeException("was told $line"),
            }), "\n";
        }
    }

    private function crowd(string $url, int $tasks, bool $own, array $free): array
    {
        $channels = [];
        for ($task = 0; $task < $tasks; $task++) {
            [$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            if (pcntl_fork() === 0) {
                array_map(fclose(...), [...$channels, $here]);
                $this->connect($url);
                contend($there, ...$this->task($own ? 'bench:' . getmypid() : 'bench:one'));
                exit;
            }
            fclose($there);
            $channels[] = $here;
        }
        foreach ($channels as $channel) {
            expect($channel, 'ready');
        }
        pairs(1, ...$free);
        echo "ready\n";
        foreach (['go', 'stop'] as $word) {
            expect(STDIN, $word);
            foreach ($channels as $channel) {
                fwrite($channel, "$word\n");
            }
        }
        $tallies = array_map(fn ($channel) => json_decode(stream_get_contents($channel), flags: JSON_THROW_ON_ERROR), $channels);
        while (pcntl_wait($status) > 0);
        return $tallies;
    }
}

/** @return list<int> how long each took, in nanoseconds */
function pairs(int $count, callable $acquire, callable $release): array
{
    $took = [];
    while ($count-- > 0) {
        $began = hrtime(true);
        $release($acquire());
        $took[] = hrtime(true) - $began;
    }
    return $took;
}

/** One task: acquires and releases from the time that `$channel` says so until it says anything more, or is closed. */
function contend($channel, callable $acquire, callable $release): void
{
    fwrite($channel, "ready\n");
    expect($channel, 'go');
    $stopped = function () use ($channel) {
        [$read, $none] = [[$channel], null];
        return stream_select($read, $none, $none, 0) > 0;
    };
    [$acquired, $ns] = [0, []];
    for ($end = false; !$end; $end = $end || $stopped()) {
        $began = hrtime(true);
        $held = $acquire();
        $ns[] = hrtime(true) - $began;
        // Only what was acquired before the end counts as served.
        $end = $stopped();
        $acquired += $end ? 0 : 1;
        $release($held);
    }
    fwrite($channel, json_encode(['acquired' => $acquired, 'ns' => $ns]));
}

function expect($channel, string $wanted): void
{
    $said = trim((string) fgets($channel));
    $said === $wanted || exit("was told '$said' in place of $wanted\n");
}

function offer(Contender $contender): array
{
    $absent = $contender->absent();
    $versions = ['PHP' => PHP_VERSION];
    if ($absent === null) {
        foreach ($contender->extensions as $extension) {
            $versions["$extension (PHP extension)"] = phpversion($extension);
        }
        if ($contender->symfony) {
            $versions['symfony/lock (Debian)'] = trim((string) shell_exec("dpkg-query -W -f '\${Version}' php-symfony-lock"));
        }
    }
    return [
        'name' => $contender->name, 'language' => 'PHP', 'role' => $contender->role, 'rows' => $contender->rows,
        'requests' => $contender->requests, 'versions' => $versions, 'absent' => $absent,
    ];
}

/** Runs the program of these contenders. */
function main(Contender ...$contenders): void
{
    [, $verb, $name, $url] = [...$GLOBALS['argv'], '', ''];
    foreach ($contenders as $contender) {
        if ($verb === 'list') {
            echo json_encode(offer($contender), JSON_UNESCAPED_SLASHES), "\n";
        } elseif ($contender->name === $name) {
            $contender->$verb($url);
        }
    }
}
