<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Illuminate\Cache\{ArrayStore, Repository};
use Illuminate\Contracts\Cache\LockTimeoutException;
use Lockwright\Client;
use Lockwright\Laravel\LockwrightStore;
use PHPUnit\Framework\TestCase;

/** Laravel's cache locks on ours, with the Laravel that Debian has. */
final class LaravelTest extends TestCase
{
    private Client $client;
    private Repository $cache;
    private Repository $other;

    protected function setUp(): void
    {
        if (!stream_resolve_include_path('Illuminate/Cache/autoload.php')) {
            $this->markTestSkipped('there is no Laravel cache here: apt-get install php-illuminate-cache');
        }
        // The framework of Debian's release is older than its PHP.
        error_reporting(E_ALL & ~E_DEPRECATED);
        require_once 'Illuminate/Cache/autoload.php';
        require_once __DIR__ . '/../laravel/LockwrightStore.php';
        $place = place('server');
        $prefix = 'laravel-' . bin2hex(random_bytes(4)) . ':';
        $this->client = Client::connect($place, prefix: $prefix);
        $this->cache = new Repository(new LockwrightStore(new ArrayStore(), $this->client));
        $this->other = new Repository(new LockwrightStore(new ArrayStore(), Client::connect($place, prefix: $prefix)));
    }

    protected function tearDown(): void
    {
        error_reporting(E_ALL);
    }

    public function testALockIsHeldUntilItIsReleased(): void
    {
        $lock = $this->cache->lock('x', 10);
        $this->assertTrue($lock->get());
        $this->assertFalse($lock->get(), 'not twice');
        $this->assertFalse($this->other->lock('x', 10)->get());
        $this->assertNull($this->client->lock('x')->tryAcquire(), 'it is that of other programs');
        $this->assertGreaterThan(0, $lock->guard()->token());
        $this->assertTrue($lock->release());
        $this->assertFalse($lock->release());
        $this->assertSame(7, $this->other->lock('x')->get(fn () => 7));
        $this->assertTrue($this->cache->lock('x')->get());
    }

    public function testWhoWaitsIsServedOrToldThatTheTimeIsOver(): void
    {
        $lock = $this->cache->lock('x', 0.3);
        $this->assertTrue($lock->get());
        $began = microtime(true);
        $this->assertSame('done', $this->other->lock('x', 10)->block(20, fn () => 'done'));
        $this->assertLessThan(5.0, microtime(true) - $began);
        $this->assertFalse($lock->release(), 'it has ended');
        $held = $this->cache->lock('x', 10);
        $this->assertTrue($held->block(1));
        $this->expectException(LockTimeoutException::class);
        $this->other->lock('x', 10)->block(0.1);
    }

    public function testWhoeverHasTheOwnerHoldsTheLock(): void
    {
        $lock = $this->cache->lock('x', 10);
        $this->assertSame('', $lock->owner());
        $this->assertTrue($lock->get());
        $owner = $lock->owner();
        $this->assertSame($owner, $lock->owner());
        unset($lock);
        $this->assertFalse($this->other->lock('x')->get(), 'it is held, by nobody\'s object');
        $this->assertFalse($this->other->restoreLock('x', substr($owner, 0, -1) . (str_ends_with($owner, 'a') ? 'b' : 'a'))->release());
        $this->assertTrue($this->other->restoreLock('x', $owner)->release());
        $this->assertFalse($this->other->restoreLock('x', $owner)->release(), 'not twice');
        $lock = $this->cache->lock('x');
        $this->assertTrue($lock->get());
        $lock->owner();
        $this->assertTrue($lock->release(), 'by itself, too');
        $this->assertTrue($this->other->lock('x')->get());
    }

    public function testALockIsTakenAway(): void
    {
        $lock = $this->cache->lock('x', 10);
        $lock->forceRelease();
        $this->assertTrue($lock->get());
        $this->other->lock('x')->forceRelease();
        $this->assertFalse($lock->release());
        $this->assertTrue($this->other->lock('x')->get());
    }

    public function testAProblemOfTheStoreIsNoRefusal(): void
    {
        $cache = new Repository(new LockwrightStore(new ArrayStore(), Client::connect('redis://127.0.0.1:1', storeTimeout: 0.1)));
        $this->expectException(Lockwright\Unavailable::class);
        $cache->lock('x')->get();
    }

    public function testValuesLieWhereTheyLay(): void
    {
        $this->assertTrue($this->cache->put('x', 1, 60));
        $this->cache->increment('x', 4);
        $this->cache->decrement('x');
        $this->assertSame([4, ['x' => 4, 'y' => null]], [$this->cache->get('x'), $this->cache->many(['x', 'y'])]);
        $this->assertTrue($this->cache->putMany(['y' => 2], 60) && $this->cache->forever('z', 3) && $this->cache->forget('x'));
        $this->assertSame([null, 2, 3], [$this->cache->get('x'), $this->cache->get('y'), $this->cache->get('z')]);
        $this->cache->flush();
        $this->assertSame(['', null], [$this->cache->getStore()->getPrefix(), $this->cache->get('y')]);
    }
}
