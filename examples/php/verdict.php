<?php
// verdict.php [URL]: plays what goes wrong with each lock in mistakes.php, and the same with Lockwright, on a Redis. The exit
// code is the verdict: 0 when each mistake let two in, or nobody ever again, and Lockwright did not.
declare(strict_types=1);

require __DIR__ . '/mistakes.php';
require __DIR__ . '/rebuild.php';

use Lockwright\{Client, Guard, LockTimeout};

foreach (['redis', 'pcntl', 'posix', 'lockwright'] as $extension) {
    if (!extension_loaded($extension)) {
        fwrite(STDERR, "PHP has no extension $extension here\n");
        exit(2);
    }
}
$url = $argv[1] ?? 'redis://localhost';
$at = parse_url($url);
$redis = new Redis();
$redis->connect($at['host'], $at['port'] ?? 6379);
$client = Client::connect($url);
$lock = 'examples:php:' . getmypid();

/** Waits until the server says that the lock of A ended. */
$ended = function () use ($redis, $lock): void {
    for ($end = microtime(true) + 10; $redis->exists($lock); usleep(1000)) {
        microtime(true) < $end || throw new RuntimeException('the lock did not end');
    }
};

$mistakes = [
    'SETNX, then EXPIRE: who dies in between locks everybody out for ever' => function () use ($redis, $lock) {
        takenByTwoCommands($redis, $lock, 'A', 50)->current();
        return $redis->pttl($lock) === -1 && !taken($redis, $lock, 'B', 50);
    },
    'an end by the clock: B, whose clock is 20 s fast, has the lock of A' => function () use ($redis, $lock) {
        $now = time() * 1000;
        return takenByTheClock($redis, $lock, $now, 10_000) && takenByTheClock($redis, $lock, $now + 20_000, 10_000);
    },
    'DEL unasked: A, which was late, ends the lock of B, and C has it too' => function () use ($redis, $lock, $ended) {
        $a = taken($redis, $lock, 'A', 20);
        $ended();
        $b = taken($redis, $lock, 'B', 10_000);
        givenBackUnasked($redis, $lock);
        return $a && $b && taken($redis, $lock, 'C', 10_000);
    },
    'GET, then DEL: A is late in between, ends the lock of B, and C has it too' => function () use ($redis, $lock, $ended) {
        $a = taken($redis, $lock, 'A', 1000);
        $release = givenBackAfterALook($redis, $lock, 'A');
        $release->current();
        $ended();
        $b = taken($redis, $lock, 'B', 10_000);
        $release->next();
        return $a && $b && taken($redis, $lock, 'C', 10_000);
    },
];

$ours = [
    'who dies locks nobody out' => function () use ($client, $lock) {
        [$here, $there] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = pcntl_fork();
        if ($child === 0) {
            rebuild($client, $lock, function () use ($there) {
                fwrite($there, "rebuilding\n");
                sleep(60);
            }, ttl: 0.5);
        }
        $began = fgets($here) === "rebuilding\n";
        $taken = $client->lock($lock)->tryAcquire() === null;
        posix_kill($child, SIGKILL);
        pcntl_waitpid($child, $status);
        return $began && $taken && rebuild($client, $lock, fn (Guard $guard) => $guard->isHeld());
    },
    'who works longer than the lease keeps it' => fn () => rebuild($client, $lock, function () use ($client, $lock) {
        try {
            $client->lock($lock)->acquire(timeout: 1.5);
            return false;
        } catch (LockTimeout) {
            return true;
        }
    }, ttl: 0.7),
    'who was late ends no lock but his own, and the token tells them apart' => function () use ($client, $lock) {
        $a = $client->lock($lock, ttl: 0.05, renew: false)->acquire();
        $b = $client->lock($lock)->acquire(timeout: 5);
        $late = $a->release();
        $c = $client->lock($lock)->tryAcquire();
        return $late !== 'released' && $c === null && $b->isHeld() && $b->token() > $a->token();
    },
];

$held = true;
foreach (['convicted' => $mistakes, 'holds' => $ours] as $verdict => $stories) {
    foreach ($stories as $story => $play) {
        $redis->del($lock);
        $proved = $play();
        $held = $held && $proved;
        echo $proved ? $verdict : "not $verdict", ": $story\n";
    }
}
$redis->del($lock);
echo 'verdict: it ', $held ? 'held' : 'did not hold', "\n";
exit($held ? 0 : 1);
