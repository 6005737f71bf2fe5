-- Looks at whatever of ours lies there: `lock`, `shared`, `latch` and `barrier` are the looks at each of them.
local kind = redis.pcall('HGET', KEYS[1], 'v')
if kind == 'latch1' then return latch(KEYS) end
if kind == 'barrier1' then return barrier(KEYS) end
if kind == 'rwlock1' or kind == 'semaphore1' then return shared(KEYS) end
return lock(KEYS, {''})
