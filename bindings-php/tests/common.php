<?php
// What the tests share: a store of their own, a folder of their own, and children of this process.
declare(strict_types=1);

use Lockwright\Client;

/** A place in memory that nothing else uses, or the server that the tests are given. */
function place(string $of = 'memory'): string
{
    static $n = 0;
    $n++;
    $server = getenv('LOCKWRIGHT_TEST_REDIS');
    return $of === 'server' && $server ? $server : 'memory://php-' . getmypid() . "-$n";
}

function client(string $of = 'memory'): Client
{
    return Client::connect(place($of), prefix: 'php-' . getmypid() . ':');
}

/** What a program printed that ran in another PHP, and its exit status. */
function php(string $program, array $settings = []): array
{
    $command = [PHP_BINARY, '-n', ...INIS];
    foreach ($settings as $name => $value) {
        array_push($command, '-d', "$name=$value");
    }
    $process = proc_open([...$command, '-r', $program], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes);
    $out = stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]);
    return [$out, proc_close($process)];
}

/** A folder for one test, which goes with all that is in it. */
trait OwnFolder
{
    private readonly string $folder;

    private function makeFolder(): void
    {
        $this->folder = sys_get_temp_dir() . '/lockwright-php-' . getmypid() . '-' . bin2hex(random_bytes(4));
        mkdir($this->folder);
    }

    /** @after */
    public function removeFolder(): void
    {
        if (isset($this->folder)) {
            exec('rm -rf ' . escapeshellarg($this->folder));
        }
    }
}

/** How this PHP was told of the extensions. */
define('INIS', (function () {
    $inis = ['-d', 'extension=' . getenv('LOCKWRIGHT_PHP')];
    return [...$inis, ...array_merge(...array_map(fn ($x) => ['-d', "extension=$x"], array_filter(explode(' ', (string) getenv('LOCKWRIGHT_PHP_WITH')))))];
})());
