-- What became of the attempt `me`, if that is still remembered: the time until then, and whatever else was noted.
local function recall(me)
  local noted = redis.call('HGET', key, 'd' .. me)
  if noted and tonumber(noted:match('^%d+')) > now then return noted end
end

-- They are kept in the order in which they came. With each new one some go whose time is over.
local function remember(me, memory, what)
  local ends = redis.call('HMGET', key, 'h', 'n')
  local head, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
  for seq = head, math.min(head + 16, tail) - 1 do
    local other = redis.call('HGET', key, 'q' .. seq)
    if other and recall(other) then break end
    if other then redis.call('HDEL', key, 'd' .. other) end
    redis.call('HDEL', key, 'q' .. seq)
    head = seq + 1
  end
  redis.call('HSET', key, 'd' .. me, ('%.0f'):format(now + memory) .. what, 'q' .. tail, me, 'h', head, 'n', tail + 1)
end
