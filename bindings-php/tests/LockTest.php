<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\{Client, Closed, Guard, InvalidConfig, Kit, LockException, LockTimeout, NotOwned};
use PHPUnit\Framework\TestCase;

final class LockTest extends TestCase
{
    public function testIsHeldUntilItIsReleased(): void
    {
        $lock = client()->lock('orders:42', ttl: 10.0);
        $guard = $lock->acquire(timeout: 2.0);
        $this->assertTrue($guard->isHeld());
        $this->assertGreaterThan(8.0, $guard->remaining());
        $this->assertGreaterThan(0, $guard->token());
        $this->assertNull($lock->tryAcquire());
        $this->assertSame('released', $guard->release());
        $this->assertFalse($guard->isHeld());
        $next = $lock->tryAcquire();
        $this->assertGreaterThan($guard->token(), $next->token());
    }

    public function testATimeLimitIsAnExceptionThatSaysWhy(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        try {
            $client->lock('x')->acquire(timeout: '20ms');
            $this->fail('it was granted');
        } catch (LockTimeout $error) {
            $this->assertSame(['timeout', 'x', 'acquire', true], [$error->getCode(), $error->lock, $error->operation, $error->retryable]);
            $this->assertSame($client->address(), $error->store);
            $this->assertSame(__FILE__, $error->getFile());
            $this->assertInstanceOf(LockException::class, $error);
        }
        $guard->release();
        $this->expectException(NotOwned::class);
        $guard->release();
    }

    public function testIsReleasedWhenNothingRefersToTheGuard(): void
    {
        $lock = client()->lock('x');
        $guard = $lock->acquire();
        $guard = null;
        $this->assertNotNull($lock->tryAcquire());
    }

    public function testABlockIsHeldWhileItRuns(): void
    {
        $lock = client()->lock('x');
        $this->assertSame(7, $lock->run(function (Guard $guard) use ($lock) {
            $this->assertTrue($guard->isHeld());
            $this->assertNull($lock->tryAcquire());
            return 7;
        }));
        try {
            $lock->run(fn () => throw new DomainException('mine'));
            $this->fail('nothing was thrown');
        } catch (DomainException $error) {
            $this->assertSame('mine', $error->getMessage());
        }
        $this->assertNotNull($lock->tryAcquire());
    }

    /** @return iterable<array{callable(Client): mixed, class-string<Throwable>, string}> */
    public static function badInput(): iterable
    {
        yield [fn ($client) => $client->lock('x', ttl: -1), InvalidConfig::class, 'ttl is -1.0 seconds'];
        yield [fn ($client) => $client->lock('x', ttl: NAN), InvalidConfig::class, 'ttl'];
        yield [fn ($client) => $client->lock('x', ttl: '10 parsecs'), InvalidConfig::class, 'ttl'];
        yield [fn ($client) => $client->lock('x', ttl: []), TypeError::class, '$ttl must be a number of seconds'];
        yield [fn ($client) => $client->lock('x', fair: 1), TypeError::class, '$fair must be a bool'];
        yield [fn ($client) => $client->lock('x', rank: 1.5), TypeError::class, '$rank must be an int'];
        yield [fn ($client) => $client->lock('x', retry: [1]), TypeError::class, '$retry must be an array'];
        yield [fn ($client) => $client->lock("\xff"), InvalidConfig::class, 'not UTF-8'];
        yield [fn ($client) => $client->lock(''), InvalidConfig::class, 'name'];
        yield [fn ($client) => $client->lock(7), TypeError::class, '$name must be a string'];
        yield [fn ($client) => $client->lock('x', tttl: 1), Error::class, 'Unknown named parameter $tttl'];
        yield [fn ($client) => $client->lock('x', layout: 'none-such'), LockException::class, 'none-such'];
        yield [fn ($client) => $client->semaphore('x', 0), InvalidConfig::class, 'permits'];
        yield [fn ($client) => $client->semaphore('x', -1), InvalidConfig::class, 'permits is -1'];
        yield [fn ($client) => $client->semaphore('x', 1, take: 1 << 40), InvalidConfig::class, 'take is 1099511627776'];
        yield [fn ($client) => $client->semaphore('x', 1)->resize(-1), InvalidConfig::class, 'permits is -1'];
        yield [fn ($client) => $client->latch('x', -1), InvalidConfig::class, 'latch: count is -1'];
        yield [fn ($client) => $client->latch('x', PHP_INT_MAX), InvalidConfig::class, 'latch: count is 9223372036854775807'];
        yield [fn ($client) => $client->latch('x', 1)->wait('soon'), InvalidConfig::class, 'latch: timeout'];
        yield [fn ($client) => $client->barrier('x', -1), InvalidConfig::class, 'barrier: parties is -1'];
        yield [fn ($client) => $client->barrier('x', 2)->wait('soon'), InvalidConfig::class, 'barrier: timeout'];
        yield [fn ($client) => $client->striped('x', 2)->segment(-1), InvalidConfig::class, 'there is no segment -1; there are 2'];
        yield [fn ($client) => $client->striped('x', 2)->segment(2), InvalidConfig::class, 'there is no segment 2; there are 2'];
        yield [fn ($client) => $client->election('x')->changed('x'), InvalidConfig::class, 'inspect: known is out of range'];
        yield [fn ($client) => $client->election('x')->changed(1.5), TypeError::class, 'Argument $known must be an int'];
        yield [fn () => Kit::headerValue(-1), InvalidConfig::class, 'kit: token is out of range'];
        yield [fn () => Kit::headerValue(1.5), TypeError::class, 'Argument $token must be an int'];
        yield [fn () => Kit::headerValue(1, 'x'), InvalidConfig::class, 'kit: epoch is out of range'];
        yield [fn () => Kit::headerValue(1, 1.5), TypeError::class, 'Argument $epoch must be an int'];
        yield [fn ($client) => $client->striped('x', 0), InvalidConfig::class, 'segments'];
        yield [fn ($client) => $client->barrier('x', 0), InvalidConfig::class, 'parties'];
        yield [fn ($client) => $client->once('x', 'no_such_function', 'strlen'), TypeError::class, '$look must be callable'];
        yield [fn ($client) => $client->resume('no secret'), InvalidConfig::class, 'secret'];
        yield [fn ($client) => $client->breakLock('x', -1), InvalidConfig::class, 'break: expectedToken is out of range'];
        yield [fn ($client) => $client->breakLock('x', 1.5), TypeError::class, 'Argument $expectedToken must be an int'];
        yield [fn () => Client::connect('nowhere://x'), InvalidConfig::class, 'nowhere'];
        yield [fn ($client) => $client->require(fair: 'yes'), TypeError::class, '$fair must be a bool'];
        yield [fn () => new Guard(), Exception::class, 'instantiate'];
        yield [fn ($client) => serialize($client), Exception::class, 'not allowed'];
        yield [fn ($client) => clone $client, Error::class, 'clone'];
    }

    /** @dataProvider badInput */
    public function testBadInputIsRefused(callable $does, string $class, string $says): void
    {
        $client = client();
        try {
            $does($client);
            $this->fail('it was taken');
        } catch (PHPUnit\Framework\AssertionFailedError $failure) {
            throw $failure;
        } catch (Throwable $error) {
            $this->assertInstanceOf($class, $error);
            $this->assertStringContainsString($says, $error->getMessage());
        }
        $this->assertSame([], $client->list());
    }

    /** @return iterable<array{callable(Client): mixed, string}> */
    public static function notCallable(): iterable
    {
        yield [fn ($client) => $client->lock('x')->run('no_such_function'), 'work'];
        yield [fn ($client) => $client->election('x')->run('me', 'no_such_function'), 'work'];
        yield [fn ($client) => $client->once('x', fn () => null, 'no_such_function'), 'make'];
        yield [fn ($client, $guard) => $guard->onLost('no_such_function'), 'listener'];
        yield [fn ($client, $guard) => $guard->onReleaseRequested('no_such_function'), 'listener'];
        yield [fn () => Client::connect('memory://none', credentials: 'no_such_function'), 'credentials'];
    }

    /** @dataProvider notCallable */
    public function testWhatCannotBeCalledIsRefusedBeforeAnythingIsWaitedFor(callable $does, string $what): void
    {
        $client = Client::connect(place(), prefix: 'php:');
        $guard = $client->lock('x')->acquire();
        $this->expectException(TypeError::class);
        $this->expectExceptionMessage("Argument \$$what must be callable");
        $does($client, $guard);
    }

    public function testAClosedClientSaysSo(): void
    {
        $client = client();
        $guard = $client->lock('x')->acquire();
        $client->close();
        $this->assertFalse($guard->isHeld());
        $this->expectException(Closed::class);
        $client->lock('y')->acquire();
    }
}
