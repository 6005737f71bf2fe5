<?php
// phpredis with the lock of lock.php as a peer, which never renews.

require __DIR__ . '/../../shims/php_peer.php';
require __DIR__ . '/lock.php';

final class RecipeHeld extends Held
{
    private string $requestId;

    public function __construct(private string $uri, private string $key)
    {
        $this->requestId = bin2hex(random_bytes(8)) . '-' . getmypid();
    }

    public function take(float $ttl): bool
    {
        return RedisTool::tryGetLock($this->redis(), $this->key, $this->requestId, (int) ceil($ttl * 1000));
    }

    public function release(): string
    {
        return RedisTool::releaseLock($this->redis(), $this->key, $this->requestId) ? 'released' : 'stolen';
    }

    /** The recipe has no extension: its users write this one beside it. */
    public function extend(float $ttl): bool
    {
        $lua = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

        return $this->redis()->eval($lua, [$this->key, $this->requestId, (int) ($ttl * 1000)], 1) === 1;
    }

    public function left(): float
    {
        $isOurs = $this->redis()->get($this->key) === $this->requestId;

        return $isOurs ? max(0, $this->redis()->pttl($this->key)) / 1000 : 0;
    }

    /** A process that was forked leaves its parent's connection alone. */
    private function redis(): Redis
    {
        static $connections = [];
        $redis = $connections[getmypid()] ?? null;
        if ($redis === null) {
            $address = parse_url($this->uri);
            $redis = $connections[getmypid()] = new Redis();
            $redis->connect($address['host'], $address['port']);
        }

        return $redis;
    }
}

play('phpredis', phpversion('redis'), fn (string $uri, string $key) => new RecipeHeld($uri, $key));
