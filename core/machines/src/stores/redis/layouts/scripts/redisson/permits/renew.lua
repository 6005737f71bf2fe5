-- Many in one request, each with its own answer.
local answers = {}
for i = 1, #KEYS / 3 do
  local owner, ttl, units = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  beside, leases = KEYS[3 * i - 1], KEYS[3 * i]
  local holds = ends(owner)
  if holds then
    -- A server that is full lets a script write that has written already, if only to change nothing.
    redis.call('HDEL', beside, '')
    keep(owner, units, ttl)
  end
  answers[i] = holds and 1 or 0
end
return answers
