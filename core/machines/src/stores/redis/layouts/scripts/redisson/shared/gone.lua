-- Notes of holds that ended by themselves are thrown away once they are many more than those who hold.
local function forget_gone(holders, holds)
  if redis.call('HLEN', beside) < 2 * holders + 16 then return end
  for _, owner in ipairs(redis.call('HKEYS', beside)) do
    if owner ~= 't' and not holds(owner) then forget(owner) end
  end
end
