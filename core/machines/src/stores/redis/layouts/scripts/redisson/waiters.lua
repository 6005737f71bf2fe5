local waiters = redis.call('LLEN', KEYS[3])
