local function take(me, ttl)
  ends = ('%.0f'):format(now_ms + ttl)
  redis.call('DEL', key)
  redis.call('ZADD', key, ends, me, ends, '__write__')
  redis.call('PEXPIREAT', key, ends)
end

local function keep(me, ttl)
  if ends < now_ms + ttl then take(me, ttl) end
end

local function mark(me) return me end
