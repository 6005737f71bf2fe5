<?php
// What FpmTest asks of php-fpm: counts under a lock, or ends in one.
ini_set('display_errors', '1');

/** A session handler that says whether the lock is free when PHP ends its modules' requests, ours before its own. */
final class Written implements SessionHandlerInterface
{
    public function __construct(private array $of)
    {
    }

    public function write(string $id, string $data): bool
    {
        $free = Lockwright\Client::connect($this->of['url'])->lock($this->of['lock'])->tryAcquire() !== null;
        return (bool) file_put_contents("{$this->of['folder']}/written", $free ? 'free' : 'taken');
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string
    {
        return '';
    }

    public function destroy(string $id): bool
    {
        return true;
    }

    public function gc(int $most): int
    {
        return 0;
    }
}

$lock = Lockwright\Client::connect($_GET['url'])->lock($_GET['lock'], ttl: $_GET['ttl'] ?? 60.0, timeout: 30);
$guard = $lock->acquire();
if ($_GET['end'] === 'count') {
    $counter = "$_GET[folder]/counter";
    $number = (int) @file_get_contents($counter) + 1;
    $own = "$counter." . getmypid();
    file_put_contents($own, $number);
    rename($own, $counter);
    echo $number;
    return; // the end of the request gives the lock back
}
if ($_GET['end'] === 'static') {
    // What PHP frees last of all: when the session is written, the end of the request has given it back already.
    (new class { public static ?object $guard = null; })::$guard = $guard;
    session_set_save_handler(new Written($_GET), false);
    session_start();
    $_SESSION['x'] = 1;
}
echo "held\n";
switch ($_GET['end']) {
    case 'abort':
        // A client that is gone is noticed when something is written to it.
        for (file_put_contents("$_GET[folder]/held", ''); true; usleep(1_000)) {
            echo str_repeat(' ', 8192);
            flush();
        }
    case 'signal':
        file_put_contents("$_GET[folder]/held", getmypid());
        for ($end = microtime(true) + 20; !file_exists("$_GET[folder]/go") && microtime(true) < $end; usleep(1_000));
        break;
    case 'exit': exit;
    case 'fatal': eval('class A { abstract function b(); }'); // no break
    case 'memory':
        ini_set('memory_limit', '8M');
        str_repeat('x', 1 << 27); // no break
    case 'time':
        set_time_limit(1);
        while (true);
}
