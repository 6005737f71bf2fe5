-- Many locks in one request, each with its own answer. Whoever wrote another number may be a holder: it is not written over.
local function renew(key, beside, me, ttl, unit)
  local first, owner, number, card = (redis.call('GET', beside) or ''):match('^(%d+) (%x+)/(%d+) (.*)$')
  if owner ~= me or redis.pcall('GET', key) ~= number or (number + 1) * unit <= now then return 0 end
  if (number + 1) * unit > now + ttl * 1000 then return 1 end
  number = ('%.0f'):format(math.floor((now + ttl * 1000) / unit) + 1)
  -- A server that is full lets a script write that has written already.
  redis.call('PEXPIRE', key, ttl + 600000)
  redis.call('SET', key, number, 'PX', ttl + 600000)
  redis.call('SET', beside, first .. ' ' .. me .. '/' .. number .. ' ' .. card, 'PX', ttl + 600000)
  return 1
end

local answers = {}
for i = 1, #KEYS / 2 do
  local me, ttl, unit = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  answers[i] = renew(KEYS[2 * i - 1], KEYS[2 * i], me, ttl, unit)
end
return answers
