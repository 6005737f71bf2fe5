-- A hash whose one field is the owner; its value counts how often. More fields are a lock of another kind.
local value = redis.pcall('HLEN', key)
if value == 0 then
  value = false
elseif value == 1 then
  value = redis.call('HKEYS', key)[1]
elseif type(value) == 'number' then
  value = (redis.call('HGET', key, 'mode') or '') .. ' of ' .. value
end

local function take(me, ttl)
  redis.call('HSET', key, me, 1)
  redis.call('PEXPIRE', key, ttl)
end
