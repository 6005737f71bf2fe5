-- A member for each holder, with its end as its score; `__write__` as one more says that there is only one. Among several
-- somebody other than the asker counts.
local now_ms = math.floor(now / 1000)
local live = redis.pcall('ZRANGEBYSCORE', key, '(' .. ('%.0f'):format(now_ms), '+inf', 'WITHSCORES')
local value, ends = false, 0
if live.err then
  value = live
else
  for i = 1, #live, 2 do
    ends = math.max(ends, tonumber(live[i + 1]))
    if live[i] ~= '__write__' and (not value or value == ARGV[1]) then value = live[i] end
  end
end

local function left() return ends - now_ms end

local function take(me, ttl)
  ends = ('%.0f'):format(now_ms + ttl)
  redis.call('DEL', key)
  redis.call('ZADD', key, ends, me, ends, '__write__')
  redis.call('PEXPIREAT', key, ends)
end

local function keep(me, ttl)
  if ends < now_ms + ttl then take(me, ttl) end
end
