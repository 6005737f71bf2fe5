<?php
declare(strict_types=1);

require_once __DIR__ . '/common.php';

use Lockwright\{Client, Kit, LockException};
use PHPUnit\Framework\TestCase;

/** Compares what the core names with what PHP has, and both with what editors are told. */
final class ManifestTest extends TestCase
{
    private static function camel(string $name): string
    {
        return lcfirst(str_replace('_', '', ucwords($name, '_')));
    }

    /** @return list<string> */
    private static function parameters(string $class, string $method): array
    {
        return array_map(fn ($parameter) => $parameter->getName(), (new ReflectionMethod("Lockwright\\$class", $method))->getParameters());
    }

    public function testEveryOperationIsAMethodWithItsArguments(): void
    {
        // What a latch and a barrier wait for is named so in the core, too; a lock that is tried waits for nobody.
        foreach (Kit::manifest()['core']['operations'] as $class => $operations) {
            $this->assertNotEmpty($operations);
            foreach ($operations as $name => $takes) {
                $this->assertSame(array_map(self::camel(...), $takes), self::parameters($class, self::camel($name)), "$class::$name");
            }
        }
    }

    public function testEveryOptionIsAParameter(): void
    {
        $options = array_map(fn ($shapes) => array_map(self::camel(...), array_keys($shapes)), Kit::manifest()['core']['options']);
        $lock = $options['lock'];
        $this->assertSame(['url', ...$options['connect'], 'credentials'], self::parameters('Client', 'connect'));
        $this->assertSame($options['require'], self::parameters('Client', 'require'));
        $this->assertSame(['name', ...$lock], self::parameters('Client', 'lock'));
        $but = fn (string ...$not) => array_values(array_diff($lock, ['reentrant'], $not));
        $methods = ['rwLock' => ['name'], 'semaphore' => ['name', 'permits', 'take'], 'multiLock' => ['names'],
            'striped' => ['name', 'segments'], 'once' => ['name', 'look', 'make', 'waits']];
        foreach ($methods as $method => $own) {
            $this->assertSame([...$own, ...$but()], self::parameters('Client', $method), $method);
        }
        $this->assertSame(['name', ...$but('fair', 'rank', 'label')], self::parameters('Client', 'election'));
        $this->assertSame(['secret', ...$but('timeout', 'fair', 'rank', 'revocable', 'retry')], self::parameters('Client', 'resume'));
    }

    public function testEveryRecordIsAClass(): void
    {
        foreach (Kit::manifest()['core']['records'] as $class => $fields) {
            $properties = array_map(fn ($property) => $property->getName(), (new ReflectionClass("Lockwright\\$class"))->getProperties());
            $this->assertSame(array_map(self::camel(...), $fields), $properties, $class);
        }
    }

    public function testEveryErrorHasAClassOfItsOwn(): void
    {
        ['core' => $core, 'exceptions' => $classes] = Kit::manifest();
        $this->assertSame(array_column($core['errors'], 'code'), array_keys($classes));
        $this->assertSame($classes, array_unique($classes));
        foreach ($classes as $class) {
            $this->assertTrue(is_subclass_of($class, LockException::class));
        }
    }

    /** Whatever the stubs call nullable may be null, which says nothing. */
    public function testNullSaysNothing(): void
    {
        $client = client();
        $leads = $client->election('led')->campaign('me');
        $url = 'memory://php-null-' . getmypid();
        $logger = new class {
            public function log($level, $message, array $context = []): void
            {
            }
        };
        $both = [
            [fn (...$null) => Client::connect($url, ...$null)->address(), 8],
            [fn (...$null) => $client->lock('x', ...$null)->name(), 13],
            [fn (...$null) => $client->rwLock('x', ...$null)->read()->name(), 12],
            [fn (...$null) => $client->semaphore('x', 3, ...$null)->name(), 13],
            [fn (...$null) => $client->multiLock(['x'], ...$null)->names(), 12],
            [fn (...$null) => $client->striped('x', 2, ...$null)->count(), 12],
            [fn (...$null) => $client->once('x', fn () => [7, true], 'strlen', ...$null)->get(), 13],
            [fn (...$null) => $client->election('led', ...$null)->changed()['token'], 9],
            [fn (...$null) => $client->election('led')->changed(...$null)['token'], 2],
            [fn (...$null) => $client->latch('x', 2, ...$null)->name(), 1],
            [fn (...$null) => $client->barrier('x', 2, ...$null)->name(), 1],
            [fn (...$null) => $client->require(...$null), 10],
            [fn (...$null) => $client->lock('x')->acquire(...$null)->release(), 1],
            [fn (...$null) => $client->lock('x')->run(fn () => 7, ...$null), 1],
            [fn (...$null) => Lockwright\Log::to($logger, ...$null), 1],
            [fn (...$null) => Kit::sqlCondition('c', ...$null), 1],
            [fn (...$null) => Kit::headerValue(1, ...$null), 1],
        ];
        foreach ($both as [$does, $nulls]) {
            $this->assertSame($does(), $does(...array_fill(0, $nulls, null)));
        }
        Lockwright\Log::to(null);
    }

    public function testTheStubsSayWhatThereIs(): void
    {
        $stubs = file_get_contents(__DIR__ . '/../stubs/lockwright.php');
        $this->assertSame(self::described(new ReflectionExtension('lockwright')), self::stubbed($stubs));
    }

    /** @return array<string, list<string>> the methods of each class with their parameters, and its properties and constants */
    private static function described(ReflectionExtension $extension): array
    {
        $described = [];
        foreach ($extension->getClasses() as $class) {
            $of = [];
            $own = fn ($member) => $member->getDeclaringClass()->getName() === $class->getName();
            foreach (array_filter($class->getMethods(ReflectionMethod::IS_PUBLIC), $own) as $method) {
                if ($method->getName() !== '__construct') {
                    $names = array_map(self::parameter(...), $method->getParameters());
                    $of[] = ($method->isStatic() ? 'static ' : '') . $method->getName() . '(' . implode(', ', $names) . ')';
                }
            }
            foreach (array_filter($class->getProperties(ReflectionProperty::IS_PUBLIC), $own) as $property) {
                $of[] = '$' . $property->getName();
            }
            foreach ($class->getConstants() as $name => $value) {
                $of[] = $name;
            }
            sort($of);
            $described[$class->getShortName()] = $of;
        }
        ksort($described);
        return $described;
    }

    private static function parameter(ReflectionParameter $of): string
    {
        $name = '$' . $of->getName();
        return $of->isVariadic() ? "...$name" : $name . ($of->isOptional() ? '=' : '');
    }

    /** The same of the stubs, which are read as text, since their classes exist. */
    private static function stubbed(string $stubs): array
    {
        $described = [];
        foreach (preg_split('/\n(?=(?:final )?class )/', $stubs) as $part) {
            if (!preg_match('/^(?:final )?class (\w+)/', $part, $class)) {
                continue;
            }
            $of = [];
            preg_match_all('/public (static )?function (\w+)\(([^)]*)\)/', $part, $methods, PREG_SET_ORDER);
            foreach ($methods as [, $static, $name, $parameters]) {
                if ($name === '__construct') {
                    continue;
                }
                preg_match_all('/(\.\.\.)?(\$\w+)( =)?/', $parameters, $all, PREG_SET_ORDER);
                $of[] = "$static$name(" . implode(', ', array_map(fn ($p) => $p[1] . $p[2] . (isset($p[3]) ? '=' : ''), $all)) . ')';
            }
            preg_match_all('/^    public [^(\n]*(\$\w+)[^(\n]*;$/m', $part, $properties);
            preg_match_all('/^    public const (\w+)/m', $part, $constants);
            $of = [...$of, ...$properties[1], ...$constants[1]];
            sort($of);
            $described[$class[1]] = $of;
        }
        ksort($described);
        return $described;
    }
}
