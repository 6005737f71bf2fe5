<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\Symfony\LockwrightStore;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Tests\Store;

// The test cases that Symfony has for every store of its own, where LOCKWRIGHT_SYMFONY_TESTS is the folder that holds them.
$cases = getenv('LOCKWRIGHT_SYMFONY_TESTS');
if (!$cases) {
    final class SymfonysOwnTest extends TestCase
    {
        public function testStore(): void
        {
            $this->markTestSkipped('scripts/full.d/78-symfony runs this: it fetches the test cases');
        }
    }

    return;
}

require_once 'Symfony/Component/Lock/autoload.php';
require_once __DIR__ . '/../symfony/LockwrightStore.php';
foreach (['AbstractStoreTestCase', 'BlockingStoreTestTrait', 'ExpiringStoreTestTrait', 'SharedLockStoreTestTrait', 'UnserializableTestTrait'] as $file) {
    require_once "$cases/Store/$file.php";
}

final class SymfonysOwnTest extends Store\AbstractStoreTestCase
{
    use Store\BlockingStoreTestTrait;
    use Store\ExpiringStoreTestTrait;
    use Store\SharedLockStoreTestTrait;
    use Store\UnserializableTestTrait;

    protected function getStore(): PersistingStoreInterface
    {
        // One prefix for the process and its children.
        return new LockwrightStore(Lockwright\Client::connect(place('server'), prefix: 'symfony:'));
    }

    protected function getClockDelay(): int
    {
        return 250_000;
    }
}
