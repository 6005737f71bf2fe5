local asker, ttl, card, waits = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5] == '1'
local units, in_order, me = tonumber(ARGV[7]), ARGV[9], ARGV[1]:sub(1, 32)
if h[1] and h[1] ~= ARGV[6] .. '1' then
  return redis.error_reply('FOREIGN this name is a ' .. h[1]:sub(1, -2) .. "'s")
end
if now > tonumber(ARGV[3]) then return {2, now} end

-- Whoever names another number of permits than there are is told so.
local function says(answer, short)
  if capacity ~= tonumber(ARGV[8]) then
    answer[5] = capacity
    return answer
  end
  return short
end

local mine = holder(me)
if mine then
  -- As of a lock: what has ended is granted anew.
  if mine.expires <= now then mine.token, mine.since = next_token(), now end
  prolong(mine, ttl)
  finish()
  return says({3, mine.token, 0, 0}, mine.token)
end
forget_expired()
if not resized and used == 0 and line.waiting == 0 then
  capacity = tonumber(ARGV[8])
  set('v', ARGV[6] .. '1')
  set('m', capacity)
end
if units > capacity then
  if h[1] then finish() end
  return redis.error_reply('TOOMANY it has ' .. capacity .. ' permits')
end
local token, all = serve(me, ttl)
if not token and all and used + units <= capacity then token = grant(asker, units, card, ttl, false) end
if token then
  finish()
  return says({3, token, 0, 0}, token)
end
-- The position of one who stood in the queue before counts those who left meanwhile ahead of it: a bound, without a scan.
local position
if waits then
  local seat = redis.call('HGET', key, 'a' .. me)
  position = math.min((seat or line.tail) - line.head, line.waiting)
  if seat then
    position = math.min(position, line.waiting - 1)
  else
    set('a' .. me, line.tail)
    set('q' .. line.tail, ('%s%s%010d%s'):format(asker, in_order, units, card))
    position, requeued = line.waiting, true
    line.tail, line.waiting = line.tail + 1, line.waiting + 1
  end
end
finish()
local remaining = used == 0 and 0 or math.max(soonest - now, 0)
if waits then return says({1, now, remaining, position}, {1, now, remaining, position}) end
return says({0, now, remaining, 0}, {0, now, remaining})
