<?php
// Tells what PHPUnit's log of JUnit's form holds as the other suites do: what failed and why (below the test's name), and the sum.
declare(strict_types=1);

$log = simplexml_load_file($argv[1]) ?: exit(1);
foreach ($log->xpath('//testcase[error or failure]') as $case) {
    echo "FAILED {$case['class']}::{$case['name']}\n";
    foreach ([...$case->error, ...$case->failure] as $reason) {
        [, $why] = explode("\n", trim((string) $reason), 2);
        echo preg_replace('/^/m', '  ', $why), "\n";
    }
}
// The outermost suite comes first, and has the sums.
$sum = fn (string $of): int => (int) $log->testsuite[0][$of];
$failed = $sum('errors') + $sum('failures');
echo $sum('tests') - $failed - $sum('skipped'), " passed, $failed failed\n";
