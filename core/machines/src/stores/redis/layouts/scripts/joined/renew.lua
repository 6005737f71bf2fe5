-- Many locks in one request, each with its own answer: one that fails does not fail the others.
local function renew(key, owner, ttl)
  if not holds(key, owner) then return 0 end
  if redis.call('PTTL', key) >= ttl then return 1 end
  return redis.pcall('PEXPIRE', key, ttl)
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = renew(key, ARGV[2 * i - 1], tonumber(ARGV[2 * i])) end
return answers
