<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\Client;
use PHPUnit\Framework\TestCase;

/** A worker loop, as FrankenPHP, RoadRunner and Swoole have it: many requests are served before PHP ends one. */
final class WorkerTest extends TestCase
{
    private const REQUESTS = 2000;

    private static function request(string $url, int $number): void
    {
        $guard = Client::connect($url)->lock('x', ttl: 60)->acquire(timeout: 0);
        $guard->onLost(fn () => null);
        if ($number % 3 === 0) {
            throw new DomainException('a request that fails');
        }
        if ($number % 3 === 1) {
            $guard->release();
        }
    }

    private static function descriptors(): int
    {
        return count(scandir('/proc/self/fd'));
    }

    public function testEachTurnEndsWithWhatItHeld(): void
    {
        $url = 'sqlite://' . sys_get_temp_dir() . '/lockwright-worker-' . getmypid() . '.db';
        [$memory, $descriptors] = [0, 0];
        for ($number = 0; $number < self::REQUESTS; $number++) {
            try {
                self::request($url, $number);
            } catch (DomainException) {
            }
            if ($number === 100) {
                [$memory, $descriptors] = [memory_get_usage(), self::descriptors()];
            }
        }
        $metrics = Client::connect($url)->metrics();
        $this->assertSame([self::REQUESTS, 0], [$metrics->acquired, $metrics->held], 'one connection served them all');
        // What a thread had open is there until that is cleared away.
        for ($waits = 0; self::descriptors() > $descriptors && $waits < 2000; $waits++) {
            usleep(10_000);
        }
        $this->assertSame($descriptors, self::descriptors());
        $this->assertLessThan(65_536, memory_get_usage() - $memory);
        array_map(unlink(...), glob(substr($url, strlen('sqlite://')) . '*'));
    }
}
