-- Every permit that is held is a member of a sorted set, scored with when it ends, in milliseconds of Unix time.
local leases, channel = KEYS[3], ARGV[#ARGV]
local available = redis.pcall('GET', key)
local millis = math.floor(now / 1000)

local function is_strange()
  local is_number = not available or (type(available) == 'string' and available:find('^%-?%d+$'))
  return not is_number or type(redis.pcall('ZCARD', leases)) ~= 'number'
end

local function tell(value)
  if value > 0 then publish(channel, value) end
end

-- Permits that came back. What is not there is sized by whoever asks next.
local function put_back(units)
  if units > 0 and redis.call('EXISTS', key) == 1 then tell(redis.call('INCRBY', key, units)) end
end

-- Takes back the permits whose time is over.
local function take_back()
  repeat
    local ended = redis.call('ZRANGEBYSCORE', leases, '-inf', millis, 'LIMIT', 0, 1000)
    if #ended > 0 then put_back(redis.call('ZREM', leases, unpack(ended))) end
  until #ended < 1000
end
