-- What became of the attempt `me`, if that is still remembered: the time until then, and whatever else was noted. It lies in a key of its
-- own, so that nobody who looks through the record has to read it.
local past = KEYS[2]

local function recall(me)
  local noted = redis.call('HGET', past, 'd' .. me)
  if noted and tonumber(noted:match('^%d+')) > now then return noted end
end

-- They are kept in the order in which they came. With each new one some go whose time is over; with the last of them the key itself.
local function remember(me, memory, what)
  local ends = redis.call('HMGET', past, 'h', 'n', 'g')
  local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
  for seq = head, math.min(head + 16, tail) - 1 do
    local other = redis.call('HGET', past, 'q' .. seq)
    if other and recall(other) then break end
    if other then redis.call('HDEL', past, 'd' .. other) end
    redis.call('HDEL', past, 'q' .. seq)
    head = seq + 1
  end
  local over = ('%.0f'):format(now + memory)
  redis.call('HSET', past, 'd' .. me, over .. what, 'q' .. tail, me, 'h', head, 'n', tail + 1)
  if tonumber(ends[3] or 0) < now + memory then
    redis.call('HSET', past, 'g', ('%.0f'):format(now + memory + 60000000))
    redis.call('PEXPIREAT', past, math.ceil((now + memory + 60000000) / 1000))
  end
end
