<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\{InvalidConfig, Kit, LockTimeout, NotOwned};
use PHPUnit\Framework\TestCase;

final class PrimitivesTest extends TestCase
{
    public function testWhoHoldsAReentrantLockAcquiresItAgain(): void
    {
        $lock = client()->lock('x', reentrant: true);
        $outer = $lock->acquire();
        $inner = $lock->acquire();
        $this->assertSame([1, 2], [$outer->depth(), $inner->depth()]);
        $this->assertSame('kept', $inner->release());
        $this->assertSame('released', $outer->release());
    }

    public function testManyReadOrOneWrites(): void
    {
        $both = client()->rwLock('x');
        $reader = $both->read()->acquire();
        $other = $both->read()->acquire();
        $this->assertNull($both->write()->tryAcquire());
        $this->assertFalse($reader->tryUpgrade());
        $other->release();
        $this->assertTrue($reader->tryUpgrade());
        $this->assertNull($both->read()->tryAcquire());
        $reader->downgrade();
        $this->assertNotNull($both->read()->tryAcquire());
    }

    public function testASemaphoreHasItsPermits(): void
    {
        $client = client();
        $two = $client->semaphore('x', 2);
        [$first, $second] = [$two->acquire(), $two->acquire()];
        $this->assertNull($two->tryAcquire());
        $two->resize(3);
        $third = $two->tryAcquire();
        $this->assertNotNull($third);
        $this->assertSame(3, $client->inspect('x')->shared->permits);
        $this->assertSame(3, count($client->inspect('x')->shared->holders));
    }

    public function testSeveralAreHeldTogether(): void
    {
        $client = client();
        $both = $client->multiLock(['b', 'a'], ttl: 5);
        $guard = $both->acquire();
        $this->assertEqualsCanonicalizing(['a', 'b'], array_keys($guard->tokens()));
        $this->assertTrue($guard->isHeld() && $guard->remaining() > 3);
        $this->assertNull($client->lock('a')->tryAcquire());
        $this->assertSame(['released', 'released'], array_values($guard->release()));
        try {
            $guard->release();
            $this->fail('it was released twice');
        } catch (NotOwned) {
            $this->assertFalse($guard->isHeld());
        }
        $guard = $both->acquire();
        $guard->extend(9);
        $this->assertGreaterThan(8, $guard->remaining());
        [$first, $second] = $guard->guards();
        $this->assertSame(['a', 'b'], [$first->name(), $second->name()]);
        $second->release();
        unset($guard, $second);
        $this->assertNotNull($client->lock('b')->tryAcquire());
        $this->assertNull($client->lock('a')->tryAcquire(), 'something refers to its guard');
        unset($first);
        $this->assertNotNull($client->lock('a')->tryAcquire());
    }

    public function testSeveralAreGivenBackThoughOneWasBefore(): void
    {
        $client = client();
        $guard = $client->multiLock(['a', 'b', 'c'])->acquire();
        $guard->guards()[0]->release();
        try {
            $guard->release();
            $this->fail('one was released twice');
        } catch (NotOwned $error) {
            $this->assertSame('a', $error->lock);
        }
        $this->assertSame([], $client->list());
    }

    public function testSegmentsAreSoldOut(): void
    {
        $stock = client()->striped('x', 2);
        $this->assertSame(2, $stock->count());
        $first = $stock->any(timeout: 1);
        $second = $stock->any(timeout: 1);
        $this->assertEqualsCanonicalizing([0, 1], [$first->index(), $second->index()]);
        $this->assertSame(['released', 'released'], [$first->soldOut(), $second->soldOut()]);
        $this->assertNull($stock->any(timeout: 1));
        $stock->restock();
        $guard = $stock->any(timeout: 1)->guard();
        $this->assertTrue($guard->isHeld(), 'something refers to it');
        $this->assertNotNull($stock->segment($stock->indexFor('key'))->name());
    }

    public function testSegmentsLieWithSeveralStores(): void
    {
        [$home, $other] = [client(), client()];
        $stock = $home->striped('x', 4)->across($other);
        $held = array_map(fn () => $stock->any(timeout: 1), range(0, 3));
        foreach ([0, 1, 2, 3] as $index) {
            $this->assertSame($index % 2 === 0, $home->inspect("x#$index")->holder !== null);
            $this->assertSame($index % 2 === 1, $other->inspect("x#$index")->holder !== null);
        }
        foreach ($held as $segment) {
            $this->assertSame('released', $segment->release());
        }
        $this->expectException(InvalidConfig::class);
        $this->expectExceptionMessage('4 segments cannot be at 5 stores');
        $stock->across($other, $other, $other);
    }

    public function testOneCallerMakes(): void
    {
        $kept = null;
        $made = 0;
        $once = client()->once('x', function () use (&$kept) {
            return $kept;
        }, function (int $token) use (&$kept, &$made) {
            $made++;
            $kept = ["value $token", true];
            return $kept[0];
        });
        $this->assertSame($once->get(), $once->get());
        $this->assertSame(1, $made);
        $kept = ['stale', false];
        $this->assertNotSame('stale', $once->get());
    }

    public function testWhatMakeThrowsFreesTheLock(): void
    {
        $client = client();
        $once = $client->once('x', fn () => null, fn () => throw new DomainException('mine'));
        try {
            $once->get();
            $this->fail('nothing was thrown');
        } catch (DomainException) {
            $this->assertNotNull($client->lock('x')->tryAcquire());
        }
    }

    public function testOneLeads(): void
    {
        $election = client()->election('x', ttl: 5);
        $this->assertNull($election->leader());
        $guard = $election->campaign('me', timeout: 1);
        $leader = $election->changed();
        $this->assertSame(['me', 'php', $guard->token(), getmypid()], [$leader['proclaims'], $leader['language'], $leader['token'], $leader['pid']]);
        $guard->release();
        $this->assertNull($election->changed($leader['token'], every: '10ms'));
    }

    public function testALatchOpens(): void
    {
        $latch = client()->latch('x', 2);
        $this->assertSame(2, $latch->count());
        $this->assertFalse($latch->wait(timeout: 0));
        $this->assertSame([1, 0], [$latch->countDown(), $latch->countDown()]);
        $this->assertTrue($latch->wait());
        $this->assertTrue($latch->trySetCount(1));
        $this->assertSame(1, $latch->count());
    }

    public function testABarrierOpens(): void
    {
        $client = client();
        $this->assertSame(0, $client->barrier('x', 1)->wait()->index);
        $this->assertNull($client->barrier('y', 2)->wait(timeout: '10ms'));
        $this->assertSame(0, $client->barrier('y', 2)->waiting());
    }

    public function testASecretHandsALockOn(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        $secret = $guard->export(5);
        $this->assertFalse($guard->isHeld());
        $next = $client->resume($secret, ttl: 5);
        $this->assertGreaterThan($guard->token(), $next->token());
        $this->expectException(NotOwned::class);
        $client->resume($secret);
    }

    public function testALockIsSeenAndBroken(): void
    {
        $client = client();
        $guard = $client->lock('x', label: 'nightly')->acquire();
        $seen = $client->inspect('x');
        $this->assertSame(['x', 'nightly', 'php'], [$seen->name, $seen->holder->label, $seen->holder->language]);
        $this->assertSame(['x'], $client->list());
        $this->assertFalse($client->breakLock('x', $guard->token() + 1000));
        $this->assertTrue($client->breakLock('x', $seen->holder->lastToken));
        $this->assertSame([], $client->list());
        $this->assertContains($guard->release(), ['expired', 'stolen']);
    }

    public function testWhatIsPromisedAndDoneIsTold(): void
    {
        $client = client();
        $this->assertIsFloat(client()->ping()->took);
        $this->assertTrue($client->guarantees()->fair);
        $client->require(fair: true, semaphore: true);
        $client->lock('x')->acquire()->release();
        $metrics = $client->metrics();
        $this->assertSame([1, 0], [$metrics->acquired, $metrics->held]);
        $this->assertSame(1, $metrics->hold->count());
        $this->assertGreaterThan(0, $metrics->hold->quantile(0.5));
        $this->assertSame([], $client->drain(1));
    }

    public function testATokenTravels(): void
    {
        $header = Kit::headerValue(7, 2);
        $this->assertSame([2, 7], Kit::readHeader($header));
        $this->assertNull(Kit::readHeader('none'));
        $this->assertStringContainsString('version', Kit::sqlCondition('version'));
        $this->assertSame(['orders:42/', 'orders:420'], Kit::keyRange('orders:42'));
        $this->assertSame(5584380421345094869, Kit::advisoryKey('orders'));
        foreach (['', "a\0b", "a\nb", str_repeat('x', 1537)] as $wrong) {
            $asked = [
                fn () => Kit::keyRange($wrong),
                fn () => Kit::advisoryKey($wrong),
                fn () => Kit::sqlCondition($wrong),
                fn () => Kit::sqlCondition('version', $wrong),
            ];
            foreach ($asked as $ask) {
                try {
                    $ask();
                    $this->fail('it took ' . json_encode($wrong));
                } catch (InvalidConfig $refused) {
                    $this->assertStringContainsString('invalid_config: kit', $refused->getMessage());
                }
            }
        }
        $this->assertNotSame('', Kit::HEADER . Kit::SET_SCRIPT);
    }
}
