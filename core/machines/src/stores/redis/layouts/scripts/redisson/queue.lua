local queue, deadlines = KEYS[3], KEYS[4]

-- The first in line. Who let its deadline pass is thrown out.
local function first_in_line()
  local first = redis.call('LINDEX', queue, 0)
  local time = first and redis.call('TIME')
  while first do
    local deadline = redis.call('ZSCORE', deadlines, first)
    if deadline and tonumber(deadline) > time[1] * 1000 + math.floor(time[2] / 1000) then return first end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, first)
    first = redis.call('LINDEX', queue, 0)
  end
  return first
end
