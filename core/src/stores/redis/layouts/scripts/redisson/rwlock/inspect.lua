if is_strange() then return foreign() end
if not mode then return false end
local answer = {'rwlock', 1073741824, 0}
for _, field in ipairs(redis.call('HKEYS', key)) do
  local owner = field:match('^(.*):write$')
  local left = owner and redis.call('PTTL', key) or field ~= 'mode' and reads(field)
  if left then
    local token, since, _, card = noted(owner or field)
    answer[#answer + 1] =
      {owner or field, since and now - since or -1, (left < 0 and 86400000 or left) * 1000, token, owner and 1073741824 or 1, card or '\t\tredisson\t'}
  end
end
return answer
