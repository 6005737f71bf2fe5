<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\Symfony\LockwrightStore;
use PHPUnit\Framework\TestCase;
use Psr\Log\AbstractLogger;
use Symfony\Component\Lock\Exception\{InvalidTtlException, LockAcquiringException, LockConflictedException, LockExpiredException};
use Symfony\Component\Lock\Exception\{LockReleasingException, UnserializableKeyException};
use Symfony\Component\Lock\{Key, LockFactory};
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Strategy\UnanimousStrategy;

/** Symfony's locks on ours. Symfony's own test cases for stores are run by `scripts/full.d`. */
final class SymfonyTest extends TestCase
{
    protected function setUp(): void
    {
        if (!stream_resolve_include_path('Symfony/Component/Lock/autoload.php')) {
            $this->markTestSkipped('there is no Symfony Lock here: apt-get install php-symfony-lock');
        }
        require_once 'Symfony/Component/Lock/autoload.php';
        require_once __DIR__ . '/../symfony/LockwrightStore.php';
    }

    private function conflicts(callable $work): void
    {
        try {
            $work();
            $this->fail('it was granted');
        } catch (LockConflictedException $error) {
            $this->assertStringContainsString('x', $error->getMessage());
        }
    }

    public function testAKeyHoldsItsLockUntilItIsDeleted(): void
    {
        foreach (['memory', 'server'] as $of) {
            $store = new LockwrightStore(client($of));
            [$one, $two] = [new Key('x'), new Key('x')];
            $this->assertFalse($store->exists($one));
            $store->save($one);
            $store->save($one);
            $this->conflicts(fn () => $store->save($two));
            $this->assertSame([true, false], [$store->exists($one), $store->exists($two)]);
            $store->delete($two);
            $this->assertTrue($store->exists($one));
            $token = $store->guard($one)->token();
            $store->delete($one);
            $store->delete($one);
            $this->assertSame([false, null], [$store->exists($one), $store->guard($one)]);
            $store->waitAndSave($two);
            $this->assertGreaterThan($token, $store->guard($two)->token());
        }
    }

    public function testReadersShareAndOneIsPromotedAndDemoted(): void
    {
        foreach (['memory', 'server'] as $of) {
            $store = new LockwrightStore(client($of));
            [$one, $two] = [new Key('x'), new Key('x')];
            $store->saveRead($one);
            $store->waitAndSaveRead($two);
            $this->conflicts(fn () => $store->save($one));
            $this->assertSame([true, true], [$store->exists($one), $store->exists($two)]);
            $store->delete($two);
            $store->save($one);
            $this->conflicts(fn () => $store->saveRead($two));
            $store->saveRead($one);
            $store->saveRead($two);
            $store->delete($one);
            $store->waitAndSave($two);
            $this->conflicts(fn () => $store->saveRead($one));
        }
    }

    public function testWithoutReadWriteLocksItIsThatOfOtherPrograms(): void
    {
        $client = client('server');
        $store = new LockwrightStore($client, readWrite: false);
        $key = new Key('exclusive');
        $store->saveRead($key);
        $this->assertNull($client->lock('exclusive')->tryAcquire());
        $this->conflicts(fn () => $store->saveRead(new Key('exclusive')));
        $store->delete($key);
        $this->assertNotNull($client->lock('exclusive')->tryAcquire());
    }

    public function testWhatTheStoreLacksIsSaidAtOnce(): void
    {
        $this->expectException(Lockwright\Unsupported::class);
        new LockwrightStore(Lockwright\Client::connect('redis://localhost?layout=string&format=redis-py'));
    }

    public function testALockEndsAtItsTime(): void
    {
        $client = client();
        $store = new LockwrightStore($client, initialTtl: 0.5);
        $key = new Key('x');
        $store->save($key);
        $store->putOffExpiration($key, 0.6);
        $this->assertEqualsWithDelta(0.25, $key->getRemainingLifetime(), 0.25);
        $next = new Key('x');
        $store->waitAndSave($next);
        $this->assertFalse($store->exists($key));
        $key->resetLifetime();
        $logged = $this->logged($store, fn () => $this->conflicts(fn () => $store->putOffExpiration($key, 1)));
        $this->assertSame(['warning x'], $logged);
        $store->delete($next);
        $store->save($key);
        $this->assertTrue($store->exists($key));
    }

    public function testAKeyThatExpiredBeforeItsLeaseIsGivenBackWhenSomebodyLooks(): void
    {
        $store = new LockwrightStore(client());
        $store->save($key = new Key('x'));
        $this->assertEqualsWithDelta(29.5, $key->getRemainingLifetime(), 0.5);
        $store->putOffExpiration($key, 0.3);
        while (!$key->isExpired()) {
            usleep(5_000);
        }
        $this->conflicts(fn () => $store->save(new Key('x')));
        $this->assertFalse($store->exists($key));
        $store->save(new Key('x'));
    }

    public function testToSaveAgainPutsTheEndOff(): void
    {
        $store = new LockwrightStore(client(), initialTtl: 3);
        $store->save($key = new Key('x'));
        usleep(500_000);
        $store->save($key);
        $this->assertGreaterThan(2.6, $store->guard($key)->remaining());
    }

    public function testWhoWaitsIsPromotedWhenTheOtherReaderIsGone(): void
    {
        $store = new LockwrightStore(client(), initialTtl: 0.4);
        $store->saveRead($one = new Key('x'));
        $one->resetLifetime();
        $store->putOffExpiration($one, 10);
        $store->saveRead($two = new Key('x'));
        $store->waitAndSave($one);
        $this->assertSame([true, false], [$store->exists($one), $store->exists($two)]);
    }

    public function testWhatExpiresInTheMiddleIsGivenBack(): void
    {
        $store = new LockwrightStore(client());
        $key = new Key('x');
        $store->save($key);
        try {
            $store->putOffExpiration($key, 0.000001);
            $this->fail('it was put off');
        } catch (LockExpiredException) {
        }
        $late = new Key('x');
        $late->reduceLifetime(0);
        try {
            $store->save($late);
            $this->fail('it was saved');
        } catch (LockExpiredException) {
        }
        $store->save(new Key('x'));
        $this->expectException(InvalidTtlException::class);
        $store->save($key = new Key('y'));
        $store->putOffExpiration($key, 86401 * 2.0);
    }

    public function testARenewedLockHasNoEnd(): void
    {
        $store = new LockwrightStore(client(), initialTtl: 0.4, renew: true);
        $key = new Key('x');
        $store->save($key);
        usleep(600_000);
        $this->assertTrue($store->exists($key));
        $this->assertNull($key->getRemainingLifetime());
    }

    public function testAKeyIsBoundToItsProcess(): void
    {
        $store = new LockwrightStore($client = client(), readWrite: false);
        $store->save($key = new Key('x'));
        try {
            serialize($key);
            $this->fail('it was serialized');
        } catch (UnserializableKeyException) {
        }
        $secret = $store->guard($key)->export(10);
        $this->assertFalse($store->exists($key));
        $this->assertTrue($client->resume($secret)->isHeld());
        $store->delete($key);
        $store->save($other = new Key('y'));
        unset($other);
        $store->save(new Key('y'));
    }

    /** @requires extension pcntl */
    public function testAForkedChildHoldsNothingAndEndsNothing(): void
    {
        $place = place('server');
        $factory = new LockFactory($store = new LockwrightStore(Lockwright\Client::connect($place, prefix: 'fork' . getmypid() . ':')));
        $lock = $factory->createLock('x', 5);
        $this->assertTrue($lock->acquire());
        if (($child = pcntl_fork()) === 0) {
            $held = $lock->isAcquired();
            $lock = null;
            exit($held ? 1 : 0);
        }
        pcntl_waitpid($child, $status);
        $this->assertSame(0, pcntl_wexitstatus($status));
        $this->assertTrue($lock->isAcquired());
        $this->assertFalse($factory->createLock('x')->acquire());
    }

    public function testAProblemOfTheStoreIsNoConflict(): void
    {
        $store = new LockwrightStore(Lockwright\Client::connect('redis://127.0.0.1:1', storeTimeout: 0.1));
        $this->expectException(LockAcquiringException::class);
        $store->save(new Key('x'));
    }

    public function testAReleaseThatNobodyAnsweredIsSaid(): void
    {
        $free = stream_socket_server('tcp://127.0.0.1:0');
        $address = stream_socket_get_name($free, false);
        fclose($free);
        $command = ['redis-server', '--port', substr(strrchr($address, ':'), 1), '--save', ''];
        $server = @proc_open($command, [1 => ['file', '/dev/null', 'w']], $pipes);
        if (!$server) {
            $this->markTestSkipped('there is no redis-server here');
        }
        $store = new LockwrightStore(Lockwright\Client::connect("redis://$address", storeTimeout: 0.5));
        for ($end = microtime(true) + 10; !@stream_socket_client("tcp://$address") && microtime(true) < $end; usleep(5000));
        $store->save($key = new Key('x'));
        proc_terminate($server, SIGKILL);
        proc_close($server);
        try {
            $store->delete($key);
            $this->fail('it was released');
        } catch (LockReleasingException $error) {
            $this->assertStringContainsString('"x"', $error->getMessage());
        }
        $this->assertFalse($store->exists($key));
    }

    public function testSymfonysLocksWork(): void
    {
        [$client, $other] = [client(), client()];
        $factory = new LockFactory(new LockwrightStore($client));
        [$one, $two] = [$factory->createLock('x', 5), $factory->createLock('x', 5)];
        $this->assertTrue($one->acquire());
        $this->assertFalse($two->acquire());
        $one->refresh();
        $this->assertEqualsWithDelta(4.5, $one->getRemainingLifetime(), 0.5);
        $one->release();
        $this->assertTrue($one->acquireRead() && $two->acquireRead(true));
        $this->assertFalse($two->acquire());
        unset($one);
        $this->assertTrue($two->acquire(true));
        // A key that several stores hold is several locks.
        $key = new Key('y');
        $both = new CombinedStore([new LockwrightStore($client), new LockwrightStore($other)], new UnanimousStrategy());
        $both->save($key);
        $this->assertNull($client->rwLock('y')->write()->tryAcquire());
        $this->assertNull($other->rwLock('y')->read()->tryAcquire());
        $both->delete($key);
        $this->assertNotNull($other->rwLock('y')->write()->tryAcquire());
    }

    public function testALostLockIsAConflict(): void
    {
        $place = place('server');
        $client = fn () => Lockwright\Client::connect($place, prefix: 'lost-' . getmypid() . ':');
        $store = new LockwrightStore($client());
        $breaker = $client();
        foreach ([fn ($key) => $store->putOffExpiration($key, 5), fn ($key) => $store->save($key)] as $use) {
            $store->save($key = new Key('x'));
            $this->assertTrue($breaker->breakLock('x', $store->guard($key)->token()));
            $breaker->rwLock('x')->write()->acquire();
            $this->conflicts(fn () => $use($key));
            $store->delete($key);
        }
    }

    public function testALostLockIsLogged(): void
    {
        $store = new LockwrightStore($client = client());
        $store->save($key = new Key('x'));
        $this->assertTrue($client->breakLock('x', $store->guard($key)->token()));
        $this->assertSame(['warning x'], $this->logged($store, fn () => $store->delete($key)));
    }

    /** @return list<string> the level and the lock of what was logged meanwhile */
    private function logged(LockwrightStore $store, callable $work): array
    {
        $logger = new class extends AbstractLogger {
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = "$level $context[resource]";
            }
        };
        $store->setLogger($logger);
        $work();
        return $logger->lines;
    }
}
