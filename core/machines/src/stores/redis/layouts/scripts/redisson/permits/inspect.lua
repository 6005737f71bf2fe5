if is_strange() then return foreign() end
if not available then return false end
local total = ARGV[1] == '1' and math.max(available + redis.call('ZCARD', leases), 0) or 0
local answer = {'semaphore', total, 0, {}}
local hidden = {}
for _, owner in ipairs(redis.call('HKEYS', beside)) do
  local _, _, units = noted(owner)
  for i, permit in ipairs(permits(owner, units or 0)) do hidden[permit] = i > 1 end
end
local held = redis.call('ZRANGEBYSCORE', leases, '(' .. millis, '+inf', 'WITHSCORES')
-- A reply of thousands takes the server too long, and more than 4 MiB no client takes: whoever does not fit is counted, in the end.
local size, more, more_units = 0, 0, 0
for i = 1, #held, 2 do
  if not hidden[held[i]] then
    local owner = held[i]:gsub('.', function(byte) return ('%02x'):format(byte:byte()) end)
    local token, since, units, card = noted(owner)
    local left = math.min(tonumber(held[i + 1]) - millis, 86400000)
    units, card = units or 1, card or '\t\tredisson\t'
    size = size + #card + 200
    if size <= 500000 then
      answer[#answer + 1] = {owner, since and now - since or -1, left * 1000, token, units, card}
    else
      more, more_units = more + 1, more_units + units
    end
  end
end
if more > 0 then answer[#answer + 1] = {more, more_units} end
return answer
