<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use PHPUnit\Framework\TestCase;

/** A worker loop, as FrankenPHP, RoadRunner and Swoole have it: many requests are served before PHP ends one. */
final class WorkerTest extends TestCase
{
    use OwnFolder;

    private const REQUESTS = 2000;

    /** In a PHP of its own, since clients of other tests have descriptors too, and dial when they like. */
    private const LOOP = <<<'PHP'
        use Lockwright\Client;
        use Lockwright\LockTimeout;

        function request(string $url, int $number): void
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

        function descriptors(): int
        {
            return count(scandir('/proc/self/fd'));
        }

        // A request that has to wait for the end of the one before opens the client's inbox, which stays: it is there from the beginning.
        $other = Client::connect(URL . '?ttl=50s');
        $held = $other->lock('x')->acquire();
        try {
            Client::connect(URL)->lock('x')->acquire(timeout: 0.05);
        } catch (LockTimeout) {
        }
        $held->release();
        for ($number = 0; $number < REQUESTS; $number++) {
            try {
                request(URL, $number);
            } catch (DomainException) {
            }
            if ($number === 100) {
                [$memory, $descriptors] = [memory_get_usage(), descriptors()];
            }
        }
        $metrics = Client::connect(URL)->metrics();
        // What a thread had open is there until that is cleared away.
        for ($waits = 0; descriptors() > $descriptors && $waits < 2000; $waits++) {
            usleep(10_000);
        }
        $more = ['descriptors' => descriptors() - $descriptors, 'memory' => memory_get_usage() - $memory];
        echo json_encode(['acquired' => $metrics->acquired, 'held' => $metrics->held, ...$more]);
        PHP;

    public function testEachTurnEndsWithWhatItHeld(): void
    {
        $this->makeFolder();
        $given = 'const REQUESTS = ' . self::REQUESTS . '; const URL = ' . var_export("sqlite://$this->folder/locks.db", true) . ';';
        [$out] = php($given . self::LOOP);
        $done = json_decode($out, true);
        $this->assertIsArray($done, $out);
        $this->assertSame([self::REQUESTS, 0], [$done['acquired'], $done['held']], 'one connection served them all');
        $this->assertSame(0, $done['descriptors']);
        $this->assertLessThan(65_536, $done['memory']);
    }
}
