<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\{AuthFailed, Client, Guard, InvalidConfig, LockLost, Log, MultiGuard, NotOwned};
use PHPUnit\Framework\TestCase;

/** What the library tells a program by itself, and asks it: losses, events, user and password. Always in the program's own thread. */
final class ToldTest extends TestCase
{
    protected function tearDown(): void
    {
        Log::to(null);
    }

    /** Goes on stepping, so that PHP can be interrupted, until it is so. */
    private function until(callable $is): void
    {
        for ($end = microtime(true) + 20; !$is();) {
            $this->assertLessThan($end, microtime(true));
        }
    }

    public function testALossIsTold(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        $told = [];
        $guard->onLost(function (string $why) use (&$told) {
            $told[] = $why;
        });
        $guard->onLost(function (string $why) use (&$told) {
            $told[] = "also $why";
        });
        $this->assertFalse($guard->isLost());
        $this->assertTrue($client->breakLock('x', $guard->token()));
        $this->until(function () use (&$told) {
            return count($told) === 2;
        });
        $this->assertSame(['also broken', 'broken'], [...array_diff($told, ['broken']), ...array_diff($told, ['also broken'])]);
        $this->assertSame([true, 'broken', false], [$guard->isLost(), $guard->whyLost(), $guard->isHeld()]);
    }

    public function testALossThatCameBeforeIsTold(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        $client->breakLock('x', $guard->token());
        $this->until(fn () => $guard->isLost());
        $told = null;
        $guard->onLost(function (string $why) use (&$told) {
            $told = $why;
        });
        $this->until(function () use (&$told) {
            return $told !== null;
        });
        $this->assertSame('broken', $told);
    }

    public function testWhatAListenerThrowsEndsTheWork(): void
    {
        $guard = client()->lock('x', ttl: 0.2, renew: false)->acquire();
        $guard->onLost(fn (string $why) => throw new DomainException($why));
        $this->expectExceptionMessage('not_renewed');
        $this->expectException(DomainException::class);
        for ($end = microtime(true) + 20; microtime(true) < $end;);
    }

    public function testAWaitForAnotherLockIsInterrupted(): void
    {
        $client = client();
        $held = $client->lock('y')->acquire();
        $guard = $client->lock('x', ttl: 0.2, renew: false)->acquire();
        $guard->onLost(fn (string $why) => throw new DomainException($why));
        try {
            $client->lock('y')->acquire(timeout: 20);
            $this->fail('it was granted');
        } catch (DomainException $error) {
            $this->assertSame('not_renewed', $error->getMessage());
        }
        $held->release();
        $this->assertNotNull($client->lock('y')->tryAcquire(), 'nothing of the wait is left');
    }

    /** @return iterable<string, array{callable(Client): mixed}> */
    public static function goesOn(): iterable
    {
        yield 'computes' => [fn () => null];
        yield 'waits' => [fn ($client) => $client->lock('z')->acquire()->release()];
    }

    /** @dataProvider goesOn */
    public function testWhatOneThrowsKeepsOthersForLater(callable $next): void
    {
        $client = client();
        $guards = array_map(fn ($name) => $client->lock($name, ttl: 0.2, renew: false)->acquire(), ['x', 'y', 'w']);
        $told = 0;
        foreach ($guards as $guard) {
            $guard->onLost(function (string $why) use (&$told) {
                $told++;
                throw new DomainException($why);
            });
        }
        for ($thrown = 0; $thrown < 3; $thrown++) {
            try {
                if ($thrown === 0) {
                    usleep(400_000); // until all are lost
                }
                $next($client);
                $this->until(fn () => false);
            } catch (DomainException $error) {
                $this->assertSame([$thrown + 1, null], [$told, $error->getPrevious()]);
            }
        }
    }

    public function testWhatIsGivenBackIsNotTold(): void
    {
        $client = client();
        $guard = $client->lock('x', ttl: 0.1, renew: false)->acquire();
        $told = 0;
        $guard->onLost(function () use (&$told) {
            $told++;
        });
        $guard->release();
        for ($end = microtime(true) + 0.3; microtime(true) < $end;);
        $this->assertSame([0, false, null], [$told, $guard->isLost(), $guard->whyLost()]);
        $this->expectException(NotOwned::class);
        $guard->onLost(fn () => null);
    }

    /** @return iterable<string, array{callable(Client): mixed}> what is made refers to itself by its listener */
    public static function cycles(): iterable
    {
        yield 'a guard' => [function ($client) {
            $guard = $client->lock('x')->acquire();
            $guard->onLost(fn () => $guard);
            $guard->onReleaseRequested(fn () => $guard);
            return $guard;
        }];
        yield 'several' => [function ($client) {
            $guards = $client->multiLock(['x', 'y'])->acquire();
            $guards->onLost(fn () => $guards);
            return $guards;
        }];
        yield 'one of several' => [function ($client) {
            $guards = $client->multiLock(['x', 'y'])->acquire();
            $guards->guards()[1]->onLost(fn () => $guards);
            return $guards;
        }];
        yield 'a segment' => [function ($client) {
            $segment = $client->striped('x', 2)->any();
            $segment->onLost(fn () => $segment);
            return $segment;
        }];
        yield 'an object' => [fn ($client) => new class ($client->lock('x')->acquire()) {
            public function __construct(private Guard $guard)
            {
                $guard->onLost(fn () => $this->ended());
            }
        }];
    }

    /** @dataProvider cycles */
    public function testWhatItsOwnListenerRefersToIsGivenBackWithTheCycle(callable $makes): void
    {
        $client = client();
        $made = $makes($client);
        gc_collect_cycles();
        $this->assertNotSame([], $client->list());
        unset($made);
        gc_collect_cycles();
        $this->assertSame([], $client->list());
    }

    public function testAListenerThatRefersToItsGuardIsTold(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        $told = [];
        $guard->onLost(function (string $why) use ($guard, &$told) {
            $told[] = [$why, $guard->isLost()];
        });
        gc_collect_cycles();
        $client->breakLock('x', $guard->token());
        $this->until(function () use (&$told) {
            return $told !== [];
        });
        $this->assertSame([['broken', true]], $told);
    }

    public function testTheFirstLossOfSeveralIsToldOnce(): void
    {
        $client = client();
        $all = $client->multiLock(['x', 'y'])->acquire();
        $told = [];
        $all->onLost(function (string $why) use (&$told) {
            $told[] = $why;
        });
        $this->assertSame([false, null], [$all->isLost(), $all->whyLost()]);
        ['x' => $x, 'y' => $y] = $all->tokens();
        $client->breakLock('y', $y);
        $this->until(fn () => $all->isLost());
        $client->breakLock('x', $x);
        $this->until(fn () => $all->guards()[0]->isLost());
        for ($end = microtime(true) + 0.1; microtime(true) < $end;);
        $this->assertSame([['broken'], 'broken', false], [$told, $all->whyLost(), $all->isHeld()]);
    }

    public function testALossOfASegmentIsTold(): void
    {
        $client = client();
        $striped = $client->striped('x', 2);
        $segment = $striped->any();
        $told = null;
        $segment->onLost(function (string $why) use (&$told) {
            $told = $why;
        });
        $client->breakLock($segment->guard()->name(), $segment->token());
        $this->until(function () use (&$told) {
            return $told !== null;
        });
        $this->assertSame(['broken', 'broken'], [$told, $segment->guard()->whyLost()]);
    }

    public function testWhatCannotBeCalledIsRefused(): void
    {
        $guard = client()->lock('x')->acquire();
        $this->expectExceptionMessage('$listener must be callable');
        $this->expectException(TypeError::class);
        $guard->onLost('no_such_function');
    }

    public function testAnElectionGoesOnUntilTheWorkEndsAsTheLeader(): void
    {
        $client = client();
        $reigns = [];
        $done = $client->election('x')->run('me', function (Guard $guard) use ($client, &$reigns) {
            $reigns[] = $guard->token();
            $this->assertSame('me', $client->election('x')->leader()['proclaims']);
            if (count($reigns) === 1) {
                $client->breakLock('x', $guard->token());
                $guard->onLost(fn ($why) => throw new LockLost($why));
                $this->until(fn () => false);
            }
            if (count($reigns) === 2) {
                $client->breakLock('x', $guard->token());
                $this->until(fn () => $guard->isLost());
                return 'what a leader of the past returns';
            }
            return 'done';
        });
        $this->assertSame('done', $done);
        $this->assertCount(3, $reigns);
        $this->assertSame([true, true], [$reigns[0] < $reigns[1], $reigns[1] < $reigns[2]]);
        $this->assertNull($client->election('x')->leader(), 'it resigned');
        foreach ([new DomainException('mine'), new LockLost('of another lock')] as $thrown) {
            try {
                $client->election('x')->run('me', fn () => throw $thrown);
                $this->fail('nothing was thrown');
            } catch (DomainException | LockLost $error) {
                $this->assertSame($thrown, $error);
            }
            $this->assertNull($client->election('x')->leader(), 'it resigned');
        }
    }

    private function logger(): object
    {
        return new class {
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = [$level, $message, $context];
            }
        };
    }

    public function testEventsAreLogged(): void
    {
        Log::to($logger = $this->logger(), 'debug');
        $client = client();
        $lock = $client->lock('orders:42');
        $lock->acquire()->release();
        $this->assertSame(['lockwright::grant', 'lockwright::release'], array_column(array_column($logger->lines, 2), 'target'));
        [$level, $message, $context] = $logger->lines[0];
        $this->assertSame(['debug', true, $client->address()], [$level, $message !== '', $context['store']]);
        $this->assertStringEndsWith('orders:42', $context['lock']);
        $this->assertEqualsWithDelta(microtime(true), $context['at'], 5);
        Log::to($logger);
        $guard = $lock->acquire();
        $client->breakLock('orders:42', $guard->token());
        $lost = fn () => array_values(array_filter($logger->lines, fn ($line) => $line[2]['target'] === 'lockwright::lost'));
        $this->until(fn () => $lost());
        $this->assertSame(['warning', 'broken'], [$lost()[0][0], $lost()[0][2]['reason']]);
        Log::to(null);
        $guard = $lock->acquire();
        $client->breakLock('orders:42', $guard->token());
        $this->until(fn () => $guard->isLost());
        $this->assertCount(1, $lost());
    }

    public function testALoggerThatThrowsIsAWarning(): void
    {
        Log::to(new class {
            public function log($level, $message, array $context = []): void
            {
                throw new DomainException('the disk is full');
            }
        }, 'debug');
        $said = [];
        set_error_handler(function (int $kind, string $message) use (&$said) {
            $said[] = $message;
            return true;
        });
        $this->assertTrue(client()->lock('x')->acquire()->isHeld());
        restore_error_handler();
        $this->assertStringEndsWith('the logger of Lockwright threw DomainException: the disk is full', $said[0] ?? '');
    }

    public function testWhatIsThrownAtAGrantGivesTheLockBack(): void
    {
        $client = client();
        $logger = new class {
            public function log($level, $message, array $context = []): void
            {
                throw new DomainException('the disk is full');
            }
        };
        $takes = [fn () => $client->lock('x')->acquire(), fn () => $client->lock('x')->tryAcquire(), fn () => $client->multiLock(['x', 'y'])->acquire(),
            fn () => $client->striped('s', 1)->any(), fn () => $client->election('x')->campaign('me')];
        foreach ($takes as $at => $take) {
            Log::to($logger, 'debug');
            set_error_handler(fn (int $kind, string $message) => throw new RangeException($message));
            try {
                $take();
                $this->fail('nothing was thrown');
            } catch (RangeException) {
                Log::to(null);
            } finally {
                restore_error_handler();
            }
            $this->assertSame([], $client->list(), "the one of number $at");
        }
    }

    public function testALoggerMayUseLocks(): void
    {
        $client = client();
        $lines = 0;
        Log::to(new class ($client, $lines) {
            public function __construct(private Client $client, private int &$lines)
            {
            }

            public function log($level, $message, array $context = []): void
            {
                $this->lines++;
                $this->client->lock('log')->acquire()->release();
            }
        }, 'debug');
        $client->lock('x')->acquire()->release();
        $this->assertGreaterThanOrEqual(2, $lines);
        $this->assertLessThan(10, $lines);
    }

    /** @return iterable<array{callable(): mixed, class-string<Throwable>, string}> */
    public static function noLoggers(): iterable
    {
        yield [fn () => Log::to(new stdClass()), TypeError::class, '$logger must be a Psr\Log\LoggerInterface'];
        yield [fn () => Log::to(7), TypeError::class, '$logger must be'];
        yield [fn () => Log::to('syslog'), TypeError::class, '$logger must be'];
        yield [fn () => Log::to(new Psr\Log\NullLogger(), 'notice'), InvalidConfig::class, 'say error, warning, info or debug'];
    }

    /** @dataProvider noLoggers */
    public function testWhatIsNoLoggerIsRefused(callable $does, string $class, string $says): void
    {
        require_once 'Psr/Log/autoload.php';
        $this->expectException($class);
        $this->expectExceptionMessage($says);
        $does();
    }

    public function testExitInALoggerEndsTheProgram(): void
    {
        $logger = 'class L { function log($level, $message, array $context) { echo "$context[target]\n"; exit(7); } } Lockwright\Log::to(new L, "debug");
            $client = Lockwright\Client::connect("memory://");';
        $next = ['$client->lock("x")->acquire(); for ($end = microtime(true) + 20; microtime(true) < $end;);',
            '$guard = $client->lock("x", ttl: 0.2, renew: false)->acquire(); $client->lock("x")->acquire(timeout: 20);'];
        foreach ($next as $does) {
            [$out, $status] = php("$logger $does echo 'went on';");
            $this->assertSame(["lockwright::grant\n", 7], [$out, $status]);
        }
    }

    public function testTheRequestEndsWithEverythingOpen(): void
    {
        [$out, $status] = php('class L { function log($level, $message, array $context) { fwrite(STDERR, "$context[target]\n"); } }
            Lockwright\Log::to(new L, "debug");
            $client = Lockwright\Client::connect("memory://");
            $guard = $client->lock("x", ttl: 0.05, renew: false)->acquire();
            $guard->onLost(fn () => print("lost"));
            usleep(80_000);
            exit(3);');
        $this->assertSame(3, $status, $out);
        $this->assertStringContainsString('lockwright::grant', $out);
    }

    /** A server that asks for a password, as an address without it, its files, and what it wants to hear. */
    private function server(): array
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS_TLS') ?: $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS_TLS is not set');
        $parts = parse_url($server);
        parse_str($parts['query'] ?? '', $files);
        return ["rediss://$parts[host]:$parts[port]", $files + ['prefix' => 'php-' . getmypid() . ':'], [urldecode($parts['user'] ?? ''), urldecode($parts['pass'] ?? '')]];
    }

    public function testUserAndPasswordAreAskedForAtEveryConnection(): void
    {
        [$address, $options, $known] = $this->server();
        $asked = 0;
        $credentials = function () use (&$asked, $known) {
            $asked++;
            return $known;
        };
        [$client, $other] = [Client::connect($address, ...$options, credentials: $credentials), Client::connect($address, ...$options, credentials: $credentials)];
        $guard = $client->lock('x')->acquire();
        $this->assertSame(1, $asked);
        // Whoever waits is told of its turn over a connection of the driver's own, whose thread has this one asked.
        try {
            $other->lock('x')->acquire(timeout: 0.5);
            $this->fail('it was granted');
        } catch (Lockwright\LockTimeout) {
        }
        $this->assertGreaterThanOrEqual(3, $asked);
        $this->assertSame('released', $guard->release());
        // A client that rests is asked by its next function.
        unset($client, $other, $guard);
        $next = Client::connect($address, ...$options, credentials: fn () => throw new DomainException('nobody needs it'));
        $this->assertSame('released', $next->lock('x')->acquire()->release());
    }

    /** @return iterable<array{callable(Client, Guard): mixed, mixed}> */
    public static function whatWaits(): iterable
    {
        yield 'release' => [fn (Client $client, Guard $guard) => $guard->release(), 'released'];
        yield 'extend' => [fn (Client $client, Guard $guard) => $guard->extend(20), null];
        yield 'downgrade' => [fn (Client $client, Guard $guard) => $guard->downgrade(), null];
        yield 'tryUpgrade' => [fn (Client $client, Guard $guard) => $guard->tryUpgrade(), true];
        yield 'export' => [fn (Client $client) => $client->resume(self::cutOf($client->lock('other')->acquire())->export(20))->release(), 'released'];
        yield 'run' => [fn (Client $client) => $client->lock('other')->run(fn () => self::cut() ?? 'done'), 'done'];
        yield 'several' => [fn (Client $client) => self::cutOf($client->multiLock(['a', 'b'])->acquire())->release(), ['a' => 'released', 'b' => 'released']];
        yield 'several, to be acquired' => [fn (Client $client) => $client->multiLock(['a', 'b'])->acquire()->release(), ['a' => 'released', 'b' => 'released']];
        yield 'any' => [fn (Client $client) => $client->striped('s', 2)->any()->release(), 'released'];
        yield 'tryAcquire' => [fn (Client $client) => $client->lock('other')->tryAcquire()->release(), 'released'];
        yield 'ping' => [fn (Client $client) => $client->ping()->took < 2, true];
    }

    /** Ends the connections of the user that the test made. */
    private static function cut(): void
    {
        self::say('CLIENT', 'KILL', 'USER', 'php-' . getmypid());
    }

    private static function cutOf(Guard|MultiGuard $guard): Guard|MultiGuard
    {
        self::cut();
        return $guard;
    }

    /** What the server answers. */
    private static function say(string ...$words): string
    {
        $at = parse_url(getenv('LOCKWRIGHT_TEST_REDIS'));
        $socket = fsockopen($at['host'], $at['port']);
        fwrite($socket, '*' . count($words) . "\r\n" . implode(array_map(fn ($word) => '$' . strlen($word) . "\r\n$word\r\n", $words)));
        return fgets($socket);
    }

    /** @dataProvider whatWaits */
    public function testWhateverWaitsGivesTheCredentialsThatItWaitsFor(callable $does, mixed $comes): void
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS') ?: $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS is not set');
        $user = 'php-' . getmypid();
        $this->assertSame("+OK\r\n", self::say('ACL', 'SETUSER', $user, 'on', '>word', '~*', '&*', '+@all'));
        try {
            $client = Client::connect($server, prefix: "$user:", credentials: fn () => [$user, 'word']);
            $guard = $client->rwLock('cut')->write()->acquire();
            self::cut();
            $began = microtime(true);
            $this->assertSame($comes, $does($client, $guard));
            // So does a guard that goes.
            self::cut();
            unset($guard);
            $client->rwLock('cut')->write()->acquire(timeout: 0.2)->release();
            // After two seconds nobody waits for the answer any more.
            $this->assertLessThan(2, microtime(true) - $began);
        } finally {
            unset($guard, $client);
            self::say('ACL', 'DELUSER', $user);
        }
    }

    public function testCredentialsThatThrowAsTheRequestEndsAreAskedForOnce(): void
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS') ?: $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS is not set');
        $user = 'php-' . getmypid();
        $this->assertSame("+OK\r\n", self::say('ACL', 'SETUSER', $user, 'on', '>word', '~*', '&*', '+@all'));
        try {
            $at = parse_url($server);
            [$out] = php('$asked = 0;
                $credentials = function () use (&$asked) { if ($asked++) { throw new DomainException("the vault is closed"); } return ["' . $user . '", "word"]; };
                $client = Lockwright\Client::connect(' . var_export($server, true) . ', prefix: "' . $user . ':", credentials: $credentials);
                $guard = $client->lock("end")->acquire();
                $socket = fsockopen("' . $at['host'] . '", ' . $at['port'] . ');
                fwrite($socket, "CLIENT KILL USER ' . $user . '\r\n");
                fgets($socket);
                exit(3);', ['display_errors' => '1', 'log_errors' => '0']);
            $this->assertSame(1, substr_count($out, 'DomainException: the vault is closed'), $out);
        } finally {
            self::say('ACL', 'DELUSER', $user);
        }
    }

    /** @return iterable<array{callable(): mixed, string}> */
    public static function noCredentials(): iterable
    {
        yield 'wrong' => [fn () => ['default', 'wrong'], 'password'];
        yield 'throws' => [fn () => throw new DomainException('the vault is closed'), 'threw DomainException: the vault is closed'];
        foreach (['null' => null, 'text' => 'secret', 'one' => ['default'], 'three' => ['a', 'b', 'c'], 'number' => ['a', 7], 'names' => ['user' => 'a', 'password' => 'b']] as $what => $given) {
            yield $what => [fn () => $given, 'an array of two strings'];
        }
    }

    public function testWhatIsWrongWithCredentialsIsSaid(): void
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS') ?: $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS is not set');
        $given = [[["a\xff", 'b'], 'not UTF-8'], [['a', "b\xff"], 'not UTF-8'], [['a', 7], 'an array of two strings'], [["\xff"], 'an array of two strings']];
        foreach ($given as $at => [$both, $says]) {
            try {
                Client::connect($server, prefix: "php-wrong-$at:", credentials: fn () => $both)->lock('x')->acquire();
                $this->fail('they were taken');
            } catch (AuthFailed $error) {
                $this->assertStringContainsString($says, $error->getMessage());
            }
        }
    }

    /** @dataProvider noCredentials */
    public function testWithoutCredentialsAnErrorNamesTheCause(callable $credentials, string $says): void
    {
        [$address, $options] = $this->server();
        $this->expectException(AuthFailed::class);
        $this->expectExceptionMessageMatches('/' . preg_quote($says) . '/');
        Client::connect($address, ...['prefix' => 'php-bad:'] + $options, credentials: $credentials)->lock('x')->acquire();
    }

    public function testExitInCredentialsEndsTheProgram(): void
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS') ?: $this->markTestSkipped('LOCKWRIGHT_TEST_REDIS is not set');
        $connect = '$client = Lockwright\Client::connect(' . var_export($server, true) . ', prefix: "php-exit:", credentials: function () { echo "asked "; exit(7); });
            register_shutdown_function(fn () => print("ended"));';
        foreach (['$client->lock("x")->acquire();', '$client->election("x")->run("me", fn () => 1);', '$client->list();'] as $does) {
            [$out, $status] = php("$connect try { $does } finally { echo 'went on'; }");
            $this->assertSame(['asked ended', 7], [$out, $status], $does);
        }
    }

    public function testCredentialsThatEndTheRequestEndIt(): void
    {
        [$address, $options] = $this->server();
        $connect = '$client = Lockwright\Client::connect(' . var_export($address, true) . ', ...' . var_export($options, true) . ', credentials: fn () => str_repeat("x", 1 << 27));';
        [$out] = php("$connect register_shutdown_function(fn () => print('ended')); \$client->lock('x')->acquire(); echo 'went on';", ['memory_limit' => '16M', 'display_errors' => '1']);
        $this->assertStringContainsString('Allowed memory size', $out);
        $this->assertStringContainsString('ended', $out);
        $this->assertStringNotContainsString('went on', $out);
    }
}
