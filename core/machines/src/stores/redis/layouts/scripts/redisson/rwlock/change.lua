local me, token, ttl, units, card = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5], ARGV[6]
if now > tonumber(ARGV[4]) then return {2, now} end
local as, wanted = holds(me), units == '1' and 'read' or 'write'
if not as then return 0 end
keep(me, as, ttl)
local mine = noted(me)
if mine == 0 then mine = token end
if as ~= wanted and mine == token then
  if wanted == 'read' then
    redis.call('HDEL', key, me .. ':write')
    take(me, 'read', redis.call('PTTL', key))
    tell('1')
    as = wanted
  elseif longest(me) == 0 then
    redis.call('DEL', key, lease(me, 1))
    take(me, 'write', ttl)
    mine = note(me, units, card, ttl)
    as = wanted
  end
end
return as == wanted and {1, mine} or {0}
