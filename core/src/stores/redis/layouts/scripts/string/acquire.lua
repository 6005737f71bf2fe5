local me, ttl = ARGV[1], tonumber(ARGV[2])
if now > tonumber(ARGV[3]) then return {2, now} end
if type(value) == 'table' then return foreign() end
if value and value ~= me then return {0, now, redis.call('PTTL', key), value} end

local first, owner = record()
if not value then
  redis.call('SET', key, me, 'PX', ttl)
else
  -- Asked again: its first answer was lost.
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
  if owner == me then return first end
end
local fresh, text = now, now_text
if first + 64 > now then
  fresh = first + 64
  text = ('%.0f'):format(fresh)
end
redis.call('SET', beside, text .. ' ' .. me .. ' ' .. ARGV[4], 'PX', ttl + 600000)
return fresh
