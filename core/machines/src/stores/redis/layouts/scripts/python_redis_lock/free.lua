-- As the library's own release: one of those who wait by BLPOP takes the signal.
local function free()
  redis.call('DEL', KEYS[3])
  redis.call('LPUSH', KEYS[3], 1)
  redis.call('PEXPIRE', KEYS[3], 1000)
  redis.call('DEL', key)
end
