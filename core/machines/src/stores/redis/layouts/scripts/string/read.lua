-- The holder's owner is all there is. A value that is no text is an error, as a table.
local value = redis.pcall('GET', key)

local function take(me, ttl)
  redis.call('SET', key, me, 'PX', ttl)
end
