-- The record forgets the number: within its unit of time another hold may be given the same.
local function free()
  local first, _, card = record()
  -- In this order a server that is full refuses neither.
  redis.call('DEL', key)
  redis.call('SET', beside, ('%.0f'):format(first) .. ' - ' .. card, 'KEEPTTL')
end
