-- A permit of Redisson is 16 bytes: the first of an attempt's is the attempt, the others are digests of it.
local function permits(owner, units)
  local all = {}
  for i = 1, units do
    local digits = i == 1 and owner or redis.sha1hex(owner .. ':' .. i):sub(1, 32)
    all[i] = digits:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  end
  return all
end

-- When an attempt's permits end; none if that is over.
local function ends(owner)
  local score = redis.pcall('ZSCORE', leases, permits(owner, 1)[1])
  score = type(score) == 'string' and tonumber(score)
  return score and score > millis and score
end

-- Makes permits last for at least so many milliseconds.
local function keep(owner, units, ttl)
  local until_then = math.ceil(now / 1000) + ttl
  if (ends(owner) or 0) < until_then then
    local scored = {}
    for _, permit in ipairs(permits(owner, units)) do
      scored[#scored + 1] = ('%.0f'):format(until_then)
      scored[#scored + 1] = permit
    end
    redis.call('ZADD', leases, unpack(scored))
  end
  keep_notes(ttl)
end
