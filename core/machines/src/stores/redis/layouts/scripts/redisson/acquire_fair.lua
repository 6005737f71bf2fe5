local me, ttl, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
if now > tonumber(ARGV[3]) then return {2, now} end
if type(value) == 'table' then return foreign() end
if value == me then return grant(me, ttl, ARGV[4]) end

local first = first_in_line()
if not value and (not first or first == me) then
  if first then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, me)
  end
  return grant(me, ttl, ARGV[4])
end
if ARGV[6] ~= '1' then return {0, now, redis.call('PTTL', key), value or ''} end

local place = redis.call('LPOS', queue, me)
if not place then place = redis.call('RPUSH', queue, me) - 1 end
-- Who asks again stays; who is gone is thrown out a moment after it would have had its turn. Ours move their own patience on whenever
-- they ask, and it is for nobody behind them: so the deadlines of a queue that is used without a pause do not add up.
local from = math.floor(now / 1000)
patience = patience + 125 * place
local function ends(at) return tonumber(redis.call('ZSCORE', deadlines, redis.call('LINDEX', queue, at)) or 0) end
if place > 0 and ends(place - 1) > from + patience then
  -- What Redisson added for one of its own, and takes off everybody's deadline when that has its turn, has to be over first.
  local line = redis.call('LRANGE', queue, 0, place - 1)
  local at = #line
  while at > 0 and line[at]:sub(-2) == ':0' do at = at - 1 end
  if at > 0 then from = math.max(from, ends(at - 1)) end
end
local deadline = redis.call('ZSCORE', deadlines, me)
if not deadline or tonumber(deadline) < from + patience then
  redis.call('ZADD', deadlines, from + patience, me)
end
return {1, now, redis.call('PTTL', key), value or '', place}
