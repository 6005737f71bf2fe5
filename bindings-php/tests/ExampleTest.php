<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use PHPUnit\Framework\TestCase;

final class ExampleTest extends TestCase
{
    public function testTheMistakesAreConvictedAndOursHolds(): void
    {
        $server = getenv('LOCKWRIGHT_TEST_REDIS');
        if (!$server) {
            $this->markTestSkipped('it needs a Redis: set LOCKWRIGHT_TEST_REDIS');
        }
        // With the PHP of this machine and what its settings load, as a reader would.
        $command = [PHP_BINARY, '-d', 'extension=' . getenv('LOCKWRIGHT_PHP'), __DIR__ . '/../../examples/php/verdict.php', $server];
        $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['redirect', 1]], $pipes);
        $said = stream_get_contents($pipes[1]);
        $this->assertSame(0, proc_close($process), $said);
        $this->assertSame([4, 3], [preg_match_all('/^convicted: /m', $said), preg_match_all('/^holds: /m', $said)], $said);
        $this->assertStringContainsString('verdict: it held', $said);
    }
}
