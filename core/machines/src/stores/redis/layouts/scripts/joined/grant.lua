-- The first of the tokens that go with a grant.
local function grant(me, ttl, card)
  local first, owner = record()
  if not value then
    take(me, ttl)
  else
    -- Asked again: its first answer was lost.
    keep(me, ttl)
    if owner == me then return first end
  end
  local fresh, text = block(first)
  redis.call('SET', beside, text .. ' ' .. mark(me) .. ' ' .. card, 'PX', ttl + 600000)
  return fresh
end

