local channel = ARGV[2]

-- A user who may not publish frees the lock all the same: whoever waits asks again by a timer.
local function wake_first()
  local first = first_in_line()
  if first then redis.pcall('PUBLISH', channel .. ':' .. first, '0') end
end

local function free()
  redis.call('DEL', key)
  redis.pcall('PUBLISH', channel, '0')
  wake_first()
end
