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
-- they ask, so it is for nobody behind them; what Redisson added for one of its own has to be over first. Its owners are random UUIDs.
local from = math.floor(now / 1000)
patience = patience + 125 * place
if place > 0 then
  local ahead = redis.call('LINDEX', queue, place - 1)
  local ends = tonumber(redis.call('ZSCORE', deadlines, ahead) or 0)
  if ends <= from + patience or ahead:sub(15, 15) ~= '4' then ends = ends - patience + 125 end
  from = math.max(from, ends)
end
local deadline = redis.call('ZSCORE', deadlines, me)
if not deadline or tonumber(deadline) < from + patience then
  redis.call('ZADD', deadlines, from + patience, me)
end
return {1, now, redis.call('PTTL', key), value or '', place}
