-- Everything but a renewal ends with where the readers' leases lie, and the channel.
local base, channel = ARGV[#ARGV - 1], ARGV[#ARGV]
local mode = redis.pcall('HGET', key, 'mode')

local function is_strange()
  if not mode then return redis.call('EXISTS', key) == 1 end
  return mode ~= 'read' and mode ~= 'write'
end

local function tell(message) publish(channel, message) end
