-- Many locks in one request, each with its own answer: one that fails does not fail the others.
local now_ms = math.floor(now / 1000)

local function renew(key, owner, ttl)
  local score = redis.pcall('ZSCORE', key, owner)
  if type(score) ~= 'string' or tonumber(score) <= now_ms then return 0 end
  if tonumber(score) >= now_ms + ttl then return 1 end
  local ends = ('%.0f'):format(now_ms + ttl)
  -- In this order a server that is full refuses neither.
  local kept = redis.pcall('PEXPIREAT', key, ends)
  redis.call('ZADD', key, ends, owner, ends, '__write__')
  return kept
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = renew(key, ARGV[2 * i - 1], tonumber(ARGV[2 * i])) end
return answers
