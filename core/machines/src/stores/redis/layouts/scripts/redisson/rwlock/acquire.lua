local me, ttl, card, units = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5]
local as = units == '1' and 'read' or 'write'
if now > tonumber(ARGV[3]) then return {2, now} end
if is_strange() then return foreign() end
local held = holds(me)
if held then
  -- Asked again: its first answer was lost.
  keep(me, held, ttl)
  local token = noted(me)
  if token > 0 then return token end
elseif not mode or (mode == 'read' and as == 'read') then
  forget_gone(redis.call('HLEN', key), holds)
  take(me, as, ttl)
else
  local left = redis.call('PTTL', key)
  return {0, now, (left < 0 and 86400000 or math.max(left, 1)) * 1000}
end
return note(me, units, card, ttl)
