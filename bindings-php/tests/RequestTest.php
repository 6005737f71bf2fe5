<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use PHPUnit\Framework\TestCase;

/** However a request ends, nothing stays locked; and what is forked has its own. */
final class RequestTest extends TestCase
{
    use OwnFolder;

    protected function setUp(): void
    {
        $this->makeFolder();
    }

    private function client(): Lockwright\Client
    {
        return Lockwright\Client::connect($this->url());
    }

    /** Where the processes of this host meet without a server. */
    private function url(): string
    {
        return "sqlite://$this->folder/locks.db";
    }

    /** @return iterable<string, array{0: string, 1?: int, 2?: string, 3?: array<string, string>}> what it does, its status, what it says beside "held", settings */
    public static function ends(): iterable
    {
        yield 'end' => [''];
        yield 'exit' => ['exit(7);', 7];
        yield 'exception' => ['throw new DomainException("mine");', 255, 'mine'];
        yield 'fatal error' => ['eval("class A { abstract function b(); }");', 255, 'Fatal error'];
        yield 'memory limit' => ['$s = str_repeat("x", 1 << 27);', 255, 'Allowed memory size', ['memory_limit' => '16M']];
        yield 'time limit' => ['while (true);', 255, 'Maximum execution time', ['max_execution_time' => '1']];
        yield 'in a cycle' => ['$cycle = new stdClass; $cycle->self = $cycle; $cycle->guard = $guard; unset($cycle, $guard); exit;'];
        yield 'memory limit in work' => ['$guard->release(); $client->lock("x")->run(fn () => str_repeat("x", 1 << 27));', 255, 'Allowed memory size', ['memory_limit' => '16M']];
        yield 'exit in work' => ['$guard->release(); $client->lock("x")->run(fn () => exit(7)); echo "went on";', 7];
        yield 'exit in look' => ['$guard->release(); $client->once("x", fn () => exit(7), fn () => 1)->get(); echo "went on";', 7];
        yield 'exit in make' => ['$guard->release(); $client->once("x", fn () => null, fn () => exit(7))->get(); echo "went on";', 7];
        yield 'exit of a leader' => ['$guard->release(); $client->election("x")->run("me", fn () => exit(7)); echo "went on";', 7];
        $lost = '$other = $client->lock("y")->acquire(); $other->onLost(fn () => exit(7)); $client->breakLock("y", $other->token());';
        yield 'exit in a listener' => ["$lost for (\$end = microtime(true) + 20; microtime(true) < \$end;); echo 'went on';", 7];
        yield 'exit in a listener while it waits' => ["$lost \$client->lock('x')->acquire(timeout: 20); echo 'went on';", 7];
        $run = '$guard->release(); $fiber = new Fiber(fn () => $client->lock("x")->run(fn () => Fiber::suspend()));';
        yield 'with a fiber in work' => ["$run \$fiber->start();"];
        yield 'after a fiber in work' => ["$run \$fiber->start(); unset(\$fiber); echo \$client->lock('x')->tryAcquire() ? 'free' : 'taken';", 0, 'free'];
    }

    /** @dataProvider ends */
    public function testALockIsFreeWhenItsRequestEnds(string $end, int $status = 0, string $says = '', array $settings = []): void
    {
        $program = '$client = Lockwright\Client::connect(' . var_export($this->url(), true) . ');
            $guard = $client->lock("x", ttl: 60)->acquire(); echo "held\n"; ' . $end;
        [$out, $ended] = php($program, $settings + ['display_errors' => '1']);
        $this->assertSame($status, $ended, $out);
        $this->assertMatchesRegularExpression($says === '' ? '/^held\n$/' : "/^held\n.*$says/s", $out);
        $this->assertNotNull($this->client()->lock('x')->tryAcquire(), $out);
    }

    /** @requires extension pcntl */
    public function testAForkedChildHasItsOwn(): void
    {
        $client = $this->client();
        $guard = $client->lock('x')->acquire();
        $child = pcntl_fork();
        if ($child === 0) {
            $is = fn (bool $true, int $code) => $true || posix_kill(getmypid(), 9);
            try {
                $guard->release();
                $code = '';
            } catch (Lockwright\Forked $error) {
                $code = $error->getCode();
            }
            $is($code === 'forked' && !$guard->isHeld(), 1);
            $is($client->lock('x')->tryAcquire() === null, 2);
            $is($client->lock('y')->acquire()->release() === 'released', 3);
            unset($guard);
            $client->lock('z')->acquire(); // given back by its destructor
            $held = $client->lock('w')->acquire();
            pcntl_exec('/bin/true');
        }
        pcntl_waitpid($child, $status);
        $this->assertSame(0, $status, 'what the child found');
        $this->assertTrue($guard->isHeld());
        $this->assertSame('released', $guard->release());
        $this->assertNotNull($client->lock('z')->tryAcquire());
    }

    /** @requires extension pcntl */
    public function testASignalHandlerRunsWhileALockIsWaitedFor(): void
    {
        $lock = $this->client()->lock('x');
        $guard = $lock->acquire();
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => throw new DomainException('alarm'));
        pcntl_alarm(1);
        try {
            $lock->acquire(timeout: 20);
            $this->fail('it was granted');
        } catch (DomainException $error) {
            $this->assertSame('alarm', $error->getMessage());
        }
        pcntl_signal(SIGALRM, SIG_DFL);
        $guard->release();
        $this->assertNotNull($lock->tryAcquire(), 'nothing of the wait is left');
    }

    /** @requires extension pcntl */
    public function testASignalHandlerMayLockWhileALockIsWaitedFor(): void
    {
        $client = $this->client();
        $guard = $client->lock('x')->acquire();
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, fn () => $client->lock('y')->run(fn () => $guard->release()));
        pcntl_alarm(1);
        $this->assertNotNull($client->lock('x')->acquire(timeout: 20));
        pcntl_signal(SIGALRM, SIG_DFL);
    }

    /** @requires extension pcntl */
    public function testASignalHandlerMayReleaseWhatIsBeingExported(): void
    {
        if (!getenv('LOCKWRIGHT_TEST_REDIS')) {
            $this->markTestSkipped('a server that can be paused is needed');
        }
        $client = client('server');
        $guard = $client->lock('exported')->acquire();
        pcntl_async_signals(true);
        pcntl_signal(SIGALRM, function () use ($guard, &$outcome) {
            $outcome = $guard->release();
        });
        $at = parse_url(place('server'));
        $socket = fsockopen($at['host'], $at['port']);
        fwrite($socket, "CLIENT PAUSE 1500 ALL\r\n");
        fgets($socket);
        pcntl_alarm(1);
        try {
            $guard->export('20s');
            $this->fail('it was exported');
        } catch (Lockwright\NotOwned $error) {
            $this->assertStringContainsString('released while it was exported', $error->getMessage());
        }
        pcntl_signal(SIGALRM, SIG_DFL);
        $this->assertSame('unknown', $outcome);
        $this->assertNotNull($client->lock('exported')->tryAcquire());
    }

    /** @requires extension pcntl */
    public function testASignalThatEndsTheProgramFreesTheLock(): void
    {
        [$out, $status] = php('$client = Lockwright\Client::connect(' . var_export($this->url(), true) . ');
            $guard = $client->lock("x", ttl: 60)->acquire();
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, fn () => exit(7));
            pcntl_signal(SIGALRM, function () {
                posix_kill(getmypid(), SIGTERM);
                usleep(100_000); // long enough for another thread to take that signal, if one does
            });
            pcntl_alarm(1);
            $client->lock("x")->acquire(timeout: 20);');
        $this->assertSame(7, $status, $out);
        $this->assertNotNull($this->client()->lock('x')->tryAcquire(), $out);
    }

    public function testARequestThatLocksNothingBeginsNothing(): void
    {
        [$out] = php('echo count(scandir("/proc/self/task")) - 2, " ", count(preg_grep("/socket/", array_map(fn ($fd) => (string) @readlink("/proc/self/fd/$fd"), scandir("/proc/self/fd"))));');
        $this->assertSame('1 0', $out);
    }

    public function testTheNextRequestUsesTheConnectionOfTheLast(): void
    {
        $url = place();
        $client = Lockwright\Client::connect($url);
        $client->lock('x')->acquire()->release();
        unset($client);
        $this->assertSame(1, Lockwright\Client::connect($url)->metrics()->acquired);
        $this->assertSame(0, Lockwright\Client::connect($url, prefix: 'other:')->metrics()->acquired);
    }
}
