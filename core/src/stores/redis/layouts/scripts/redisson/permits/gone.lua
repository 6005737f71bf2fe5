-- Notes of holds that ended by themselves are thrown away once there are many.
local function forget_gone()
  if redis.call('HLEN', beside) < 2 * redis.call('ZCARD', leases) + 16 then return end
  for _, owner in ipairs(redis.call('HKEYS', beside)) do
    if owner ~= 't' and not ends(owner) then forget(owner) end
  end
end
