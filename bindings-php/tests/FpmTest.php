<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use PHPUnit\Framework\TestCase;

/** Under php-fpm, whose children are killed and reloaded: nothing is counted twice, nothing stays locked, nothing hangs. */
final class FpmTest extends TestCase
{
    private const CHILDREN = 4;
    private const REQUESTS = 500;
    private const AT_ONCE = 8;
    private const KILLS = 5;
    private const LIMIT = 60;

    use OwnFolder;

    /** @var resource */
    private $fpm;

    protected function setUp(): void
    {
        $binary = current(array_filter(['/usr/sbin/php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION, '/usr/local/sbin/php-fpm'], is_executable(...)));
        if (!$binary) {
            $this->markTestSkipped('there is no php-fpm here');
        }
        $this->makeFolder();
        $user = posix_getuid() === 0 ? "user = root\ngroup = root\n" : '';
        file_put_contents("$this->folder/fpm.conf", "[global]\ndaemonize = no\nerror_log = $this->folder/log\n[www]\n$user"
            . "listen = $this->folder/socket\npm = static\nclear_env = no\npm.max_children = " . self::CHILDREN . "\n");
        $words = [$binary, '-n', ...INIS, '-R', '-y', "$this->folder/fpm.conf"];
        $this->fpm = proc_open($words, [1 => ['file', "$this->folder/out", 'w'], 2 => ['file', "$this->folder/out", 'a']], $pipes);
        $this->until(fn () => count($this->children()) === self::CHILDREN && file_exists("$this->folder/socket"));
    }

    protected function tearDown(): void
    {
        if (isset($this->fpm)) {
            proc_terminate($this->fpm);
            proc_close($this->fpm);
        }
    }

    private function until(callable $is): void
    {
        for ($end = microtime(true) + 20; !$is(); usleep(5_000)) {
            $this->assertLessThan($end, microtime(true), (string) @file_get_contents("$this->folder/log"));
        }
    }

    private function master(): int
    {
        return proc_get_status($this->fpm)['pid'];
    }

    /** @return list<int> */
    private function children(): array
    {
        $master = $this->master();
        return array_map(intval(...), preg_split('/\s+/', (string) @file_get_contents("/proc/$master/task/$master/children"), -1, PREG_SPLIT_NO_EMPTY));
    }

    /** @return resource a connection on which the answer to this query comes; null while nobody listens */
    private function ask(string $query)
    {
        $connection = @stream_socket_client("unix://$this->folder/socket", timeout: 5);
        if (!$connection) {
            return null;
        }
        $record = fn (int $kind, string $body) => pack('CCnnCx', 1, $kind, 1, strlen($body), 0) . $body;
        $parameters = '';
        foreach (['SCRIPT_FILENAME' => __DIR__ . '/fpm.php', 'REQUEST_METHOD' => 'GET', 'QUERY_STRING' => $query] as $name => $value) {
            $parameters .= pack('CN', strlen($name), strlen($value) | 1 << 31) . $name . $value;
        }
        @fwrite($connection, $record(1, pack('nCx5', 1, 0)) . $record(4, $parameters) . $record(4, '') . $record(5, ''));
        return $connection;
    }

    /** What was answered; null where the request was not ended properly. */
    private static function answer(string $records): ?string
    {
        [$body, $ended] = ['', false];
        for ($at = 0; $at + 8 <= strlen($records); $at += 8 + $head['length'] + $head['padding']) {
            $head = unpack('Cversion/Ckind/nid/nlength/Cpadding', $records, $at);
            $body .= $head['kind'] === 6 ? substr($records, $at + 8, $head['length']) : '';
            $ended = $ended || $head['kind'] === 3;
        }
        return $ended ? trim(explode("\r\n\r\n", $body, 2)[1] ?? '') : null;
    }

    private function query(array $of, string $url): string
    {
        return http_build_query($of + ['url' => $url, 'folder' => $this->folder]);
    }

    /** @return iterable<string, array{string}> */
    public static function places(): iterable
    {
        yield 'the processes of this host' => ['sqlite'];
        yield 'a server' => ['server'];
    }

    private function url(string $place): string
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS');
        if ($place === 'server' && !$server) {
            $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS is not set');
        }
        return $place === 'server' ? $server : "sqlite://$this->folder/locks.db";
    }

    /** @dataProvider places */
    public function testACounterIsExactWhileChildrenAreKilledAndReloaded(string $place): void
    {
        $query = $this->query(['end' => 'count', 'ttl' => '1s', 'lock' => basename($this->folder)], $this->url($place));
        [$answers, $open, $got, $failed] = [[], [], [], 0];
        $faults = array_map(fn ($i) => intdiv($i * self::REQUESTS, self::KILLS + 2), range(1, self::KILLS + 1));
        $end = microtime(true) + self::LIMIT;
        while (count($answers) < self::REQUESTS) {
            $this->assertLessThan($end, microtime(true), count($answers) . ' answers; ' . file_get_contents("$this->folder/log"));
            while (count($open) < min(self::AT_ONCE, self::REQUESTS - count($answers)) && $connection = $this->ask($query)) {
                stream_set_blocking($connection, false);
                $open[(int) $connection] = $connection;
                $got[(int) $connection] = '';
            }
            [$ready, $none, $nor] = [$open, null, null];
            if (!$ready || !stream_select($ready, $none, $nor, 0, 50_000)) {
                usleep(1_000);
                continue;
            }
            foreach ($ready as $id => $connection) {
                $got[$id] .= (string) @fread($connection, 65536);
                if (feof($connection)) {
                    fclose($connection);
                    unset($open[$id]);
                    $answer = self::answer($got[$id]);
                    if ($answer !== null && ctype_digit($answer)) {
                        $answers[] = (int) $answer;
                    } else {
                        $failed++;
                        $this->assertTrue($answer === null || $answer === '', "a request failed: $answer");
                    }
                }
            }
            if ($faults && count($answers) >= $faults[0]) {
                array_shift($faults);
                count($faults) === intdiv(self::KILLS, 2) ? posix_kill($this->master(), SIGUSR2) : posix_kill($this->children()[0] ?? 0, SIGKILL);
            }
        }
        $this->assertSame([], $faults, 'every fault came');
        $this->assertSame(count($answers), count(array_unique($answers)), 'two requests counted to the same number');
        $counted = (int) file_get_contents("$this->folder/counter");
        // Those who were killed may have counted without an answer, and nobody else has.
        $this->assertSame($counted, max($answers));
        $this->assertLessThanOrEqual($failed, $counted - self::REQUESTS);
    }

    /** @return iterable<string, array{string, string}> */
    public static function ends(): iterable
    {
        yield 'end' => ['none', 'held'];
        yield 'exit' => ['exit', 'held'];
        yield 'fatal error' => ['fatal', 'Fatal error'];
        yield 'memory limit' => ['memory', 'Allowed memory size'];
        yield 'time limit' => ['time', 'Maximum execution time'];
    }

    /** @dataProvider ends */
    public function testARequestThatDiesInTheCriticalSectionFreesTheLock(string $how, string $says): void
    {
        $url = $this->url('sqlite');
        $connection = $this->ask($this->query(['end' => $how, 'lock' => 'x'], $url));
        stream_set_timeout($connection, 20);
        $answer = self::answer((string) stream_get_contents($connection));
        $this->assertStringContainsString('held', (string) $answer);
        $this->assertStringContainsString($says, (string) $answer);
        $this->assertNotNull(Lockwright\Client::connect($url)->lock('x')->tryAcquire(), 'the lock is still taken, for 60 s');
    }

    public function testAGuardInAStaticEndsWithTheRequestThoughItsObjectDoesNot(): void
    {
        $connection = $this->ask($this->query(['end' => 'static', 'lock' => 'x'], $this->url('sqlite')));
        stream_set_timeout($connection, 20);
        $this->assertSame('held', self::answer((string) stream_get_contents($connection)));
        $this->assertSame('free', file_get_contents("$this->folder/written"));
    }

    public function testARequestWhoseClientIsGoneFreesTheLock(): void
    {
        $connection = $this->ask($this->query(['end' => 'abort', 'lock' => 'x'], $url = $this->url('sqlite')));
        $this->until(fn () => file_exists("$this->folder/held"));
        $lock = Lockwright\Client::connect($url)->lock('x');
        $this->assertNull($lock->tryAcquire());
        fclose($connection);
        $this->assertGreaterThan(0, $lock->acquire(timeout: 20)->token());
    }

    /** @return iterable<string, array{int, string, int}> */
    public static function signals(): iterable
    {
        yield 'SIGQUIT, which lets it finish' => [SIGQUIT, '60s', 1];
        yield 'SIGTERM, which kills it, so that its lease ends' => [SIGTERM, '1s', 3];
    }

    /** @dataProvider signals */
    public function testAChildThatIsToEndFreesTheLock(int $signal, string $ttl, int $within): void
    {
        $connection = $this->ask($this->query(['end' => 'signal', 'ttl' => $ttl, 'lock' => 'x'], $url = $this->url('sqlite')));
        $this->until(fn () => (int) @file_get_contents("$this->folder/held") > 0);
        $lock = Lockwright\Client::connect($url)->lock('x');
        $this->assertNull($lock->tryAcquire());
        posix_kill((int) file_get_contents("$this->folder/held"), $signal);
        if ($signal === SIGQUIT) {
            $this->assertNull($lock->tryAcquire(), 'its request goes on');
            touch("$this->folder/go");
            $this->assertSame('held', self::answer((string) stream_get_contents($connection)));
        }
        $this->assertGreaterThan(0, $lock->acquire(timeout: $within)->token());
        $this->until(fn () => count($this->children()) === self::CHILDREN);
    }
}
