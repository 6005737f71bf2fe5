local me, copies, sets = ARGV[1], tonumber(ARGV[3]), ARGV[4] == 'set'
if now > tonumber(ARGV[2]) then return {2, now} end
local until_then = redis.call('HGET', key, 'd' .. me)
local known = until_then and tonumber(until_then) > now
if sets and not known and count and count > 0 then return {0} end

-- Those who counted are kept in the order in which they came. With each some go whose copies cannot come any more.
local function remember()
  local ends = redis.call('HMGET', key, 'h', 'n')
  local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
  for seq = head, math.min(head + 16, tail) - 1 do
    local other = redis.call('HGET', key, 'q' .. seq)
    local over = other and redis.call('HGET', key, 'd' .. other)
    if over and tonumber(over) > now then break end
    if other then redis.call('HDEL', key, 'd' .. other) end
    redis.call('HDEL', key, 'q' .. seq)
    head = seq + 1
  end
  redis.call('HSET', key, 'd' .. me, ('%.0f'):format(now + copies), 'q' .. tail, me, 'h', head, 'n', tail + 1)
end

local function open()
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local attempt = all[i]:match('^w(%x+)$')
    if attempt then
      redis.call('HDEL', key, all[i])
      -- A user without the right to publish still counts down: those who wait ask by their timers.
      redis.pcall('PUBLISH', 'lwi:' .. all[i + 1], table.concat({'taken', attempt, 1, now_text, key}, ' '))
    end
  end
end

count = count or tonumber(ARGV[5])
if not known then
  remember()
  if sets then
    count = tonumber(ARGV[5])
  elseif count == 1 then
    open()
  end
  if not sets then count = math.max(count - 1, 0) end
end
keep(math.max(tonumber(ARGV[6]), copies))
return {1, count}
