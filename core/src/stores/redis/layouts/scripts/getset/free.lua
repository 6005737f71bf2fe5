-- The record forgets the number: within its unit of time another hold may be given the same.
local function free()
  local first, _, card = record()
  redis.call('SET', beside, ('%.0f'):format(first) .. ' - ' .. card, 'KEEPTTL')
  redis.call('DEL', key)
end
