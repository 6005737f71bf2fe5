local me, inbox, parties, memory = ARGV[1]:sub(1, 32), ARGV[1]:sub(33, 48), tonumber(ARGV[5]), tonumber(ARGV[6])
if now > tonumber(ARGV[2]) then return {2, now} end
local noted = recall(me)
if noted then return passed(noted) or {4} end

-- How many places are noted, and a time before which none of them ends: until then nobody has to look through them.
local f = redis.call('HMGET', key, 'b', 's', 'o', 'e', 'w' .. me)
local noted_places, soonest, order = tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0)
local mine, standing = f[5] and place(f[5]), nil
if noted_places > 0 and now >= soonest then
  local over
  standing, over = places()
  for _, other in ipairs(over) do
    redis.call('HDEL', key, 'w' .. other.attempt)
    if other.attempt == me then mine = nil end
  end
  noted_places, soonest = #standing, math.huge
  for _, other in ipairs(standing) do soonest = math.min(soonest, other.ends) end
  redis.call('HSET', key, 'b', noted_places, 's', noted_places > 0 and ('%.0f'):format(soonest) or 0)
end

local others = noted_places - (mine and 1 or 0)
if others > 0 and parties ~= count then return {5, count} end
local opens = others + 1 >= parties
if not opens and ARGV[3] ~= '1' then return {0, now, others} end
local ends = now + tonumber(ARGV[4])

if not opens then
  if others + (mine and 1 or 0) == 0 then soonest = math.huge end
  if not mine then
    mine = { order = order }
    order = order + 1
  end
  redis.call('HSET', key, 'w' .. me, ('%s %.0f %.0f %.0f'):format(inbox, ends, mine.order, memory), 'b', others + 1,
    's', ('%.0f'):format(math.min(soonest, ends)), 'o', order)
  count = parties
  keep(memory)
  return {1, now, others + 1}
end

-- All pass who stand there, in the order of arrival.
local all = standing or noted_places > 0 and places() or {}
if not mine then table.insert(all, { attempt = me, order = order }) end
table.sort(all, function(a, b) return a.order < b.order end)
local generation = tonumber(f[4] or 0)
generation = generation == 0 and math.floor(now / 1000) + 1 or generation + 1
local generation_text, longest, index = ('%.0f'):format(generation), memory, 0
for at, other in ipairs(all) do
  if other.attempt == me then
    index, other.memory = at - 1, memory
  else
    -- A user without the right to publish still opens it: the others ask by their timers.
    redis.pcall('PUBLISH', 'lwi:' .. other.inbox,
      table.concat({'taken', other.attempt, generation_text .. ('%04d'):format(at - 1), now_text, key}, ' '))
  end
  redis.call('HDEL', key, 'w' .. other.attempt)
  remember(other.attempt, other.memory, (' %d %s'):format(at - 1, generation_text))
  longest = math.max(longest, other.memory)
end
redis.call('HSET', key, 'b', 0, 's', 0, 'o', 0, 'e', generation_text)
count = parties
keep(longest)
return {3, index, generation}
