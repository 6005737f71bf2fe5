local me, ttl = ARGV[1], tonumber(ARGV[2])
if now > tonumber(ARGV[3]) then return {2, now} end
if type(holder) == 'table' then return foreign() end
if holder and holder ~= me then return {0, now, left(), holder} end

local first, owner = record()
if not holder then
  take(me, ttl)
else
  -- Asked again: its first answer was lost.
  keep(me, ttl)
  if owner == me then return first end
end
local fresh, text = now, now_text
if first + 64 > now then
  fresh = first + 64
  text = ('%.0f'):format(fresh)
end
redis.call('SET', beside, text .. ' ' .. mark(me) .. ' ' .. ARGV[4], 'PX', ttl + 600000)
return fresh
