if is_strange() then return foreign() end
if not mode then return false end
local answer, size, more = {'rwlock', 1073741824, 0, {}}, 0, 0
for _, field in ipairs(redis.call('HKEYS', key)) do
  local owner = field:match('^(.*):write$')
  local left = owner and redis.call('PTTL', key) or field ~= 'mode' and reads(field)
  if left then
    local token, since, _, card = noted(owner or field)
    card = card or '\t\tredisson\t'
    size = size + #card + 200
    -- A reply of thousands takes the server too long, and more than 4 MiB no client takes: whoever does not fit is counted.
    if size > 500000 then
      more = more + 1
    else
      answer[#answer + 1] =
        {owner or field, since and now - since or -1, (left < 0 and 86400000 or left) * 1000, token, owner and 1073741824 or 1, card}
    end
  end
end
if more > 0 then answer[#answer + 1] = {more, more} end
return answer
