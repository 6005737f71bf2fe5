-- Many locks in one request, each with its own answer.
local answers = {}
for i = 1, #KEYS / 2 do
  local owner, ttl = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
  key, beside, base = KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i]
  local as = holds(owner)
  if as then keep(owner, as, ttl) end
  answers[i] = as and 1 or 0
end
return answers
