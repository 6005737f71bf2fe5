local asker, ttl, card, waits = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5] == '1'
local units, in_order, me = tonumber(ARGV[7]), ARGV[9], ARGV[1]:sub(1, 32)
if h[1] and h[1] ~= ARGV[6] .. '1' then
  return redis.error_reply('FOREIGN this name is a ' .. h[1]:sub(1, -2) .. "'s")
end
if now > tonumber(ARGV[3]) then return {2, now} end

local mine = holder(me)
if mine then
  prolong(mine, ttl)
  finish()
  return {4, mine.token}
end
forget_expired()
if not resized and used == 0 and waiting == 0 then
  capacity = tonumber(ARGV[8])
  set('v', ARGV[6] .. '1')
  set('m', capacity)
end
if units > capacity then
  if h[1] then finish() end
  return redis.error_reply('TOOMANY it has ' .. capacity .. ' permits')
end
local token, all = serve(me, ttl)
if token then
  finish()
  return {4, token}
end
if all and used + units <= capacity then token = grant(asker, units, card, ttl, false) end
if token then
  finish()
  return token
end
-- The position of one who stood in the queue before counts those who left meanwhile ahead of it: a bound, without a scan.
local position, seat
if waits then
  seat = redis.call('HGET', key, 'a' .. me)
  position = math.min((seat or tail) - head, waiting)
  if seat then
    position = math.min(position, waiting - 1)
  else
    set('a' .. me, tail)
    set('q' .. tail, ('%s%s%010d%s'):format(asker, in_order, units, card))
    position, tail, waiting, requeued = waiting, tail + 1, waiting + 1, true
  end
end
finish()
local remaining = used == 0 and 0 or math.max(soonest - now, 0)
if waits then return {seat and 5 or 1, now, remaining, position} end
return {0, now, remaining}
