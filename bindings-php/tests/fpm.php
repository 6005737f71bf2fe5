<?php
// What FpmTest asks of php-fpm: counts under a lock, or ends in one.
ini_set('display_errors', '1');
$lock = Lockwright\Client::connect($_GET['url'])->lock($_GET['lock'], ttl: $_GET['end'] === 'count' ? 1.0 : 60.0, timeout: 30);
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
echo "held\n";
switch ($_GET['end']) {
    case 'exit': exit;
    case 'fatal': eval('class A { abstract function b(); }'); // no break
    case 'memory':
        ini_set('memory_limit', '8M');
        str_repeat('x', 1 << 27); // no break
    case 'time':
        set_time_limit(1);
        while (true);
}
