local channel = ARGV[2]

local function wake_first()
  local first = first_in_line()
  if first then publish(channel .. ':' .. first, '0') end
end

local function free()
  redis.call('DEL', key)
  publish(channel, '0')
  wake_first()
end
