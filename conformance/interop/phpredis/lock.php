<?php
// The lock of an article that is often copied, as it was published there for Predis, with phpredis' order of arguments: one SET
// with NX and PX takes it, a script that compares gives it back.

final class RedisTool
{
    const LOCK_SUCCESS = true;
    const IF_NOT_EXIST = 'NX';
    const MILLISECONDS_EXPIRE_TIME = 'PX';
    const RELEASE_SUCCESS = 1;

    public static function tryGetLock(Redis $redis, string $key, string $requestId, int $expireTime): bool
    {
        $result = $redis->set($key, $requestId, [self::IF_NOT_EXIST, self::MILLISECONDS_EXPIRE_TIME => $expireTime]);

        return self::LOCK_SUCCESS === $result;
    }

    public static function releaseLock(Redis $redis, string $key, string $requestId): bool
    {
        $lua = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
        $result = $redis->eval($lua, [$key, $requestId], 1);

        return self::RELEASE_SUCCESS === $result;
    }
}
