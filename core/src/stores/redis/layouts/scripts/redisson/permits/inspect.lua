if is_strange() then return foreign() end
if not available then return false end
local total = ARGV[1] == '1' and math.max(available + redis.call('ZCARD', leases), 0) or 0
local answer = {'semaphore', total, 0}
local hidden = {}
for _, owner in ipairs(redis.call('HKEYS', beside)) do
  local _, _, units = noted(owner)
  for i, permit in ipairs(permits(owner, units or 0)) do hidden[permit] = i > 1 end
end
local held = redis.call('ZRANGEBYSCORE', leases, '(' .. millis, '+inf', 'WITHSCORES', 'LIMIT', 0, 1000)
for i = 1, #held, 2 do
  if not hidden[held[i]] then
    local owner = held[i]:gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
    local token, since, units, card = noted(owner)
    local left = math.min(tonumber(held[i + 1]) - millis, 86400000)
    answer[#answer + 1] = {owner, since and now - since or -1, left * 1000, token, units or 1, card or '\t\tredisson\t'}
  end
end
return answer
