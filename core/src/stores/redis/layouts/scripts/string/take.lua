local function take(me, ttl) redis.call('SET', key, me, 'PX', ttl) end

local function keep(_, ttl)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end

local function mark(me) return me end
