-- Ends a hold. Whether it lasted until now.
local function free(owner, units)
  local lasted = ends(owner)
  forget(owner)
  put_back(redis.call('ZREM', leases, unpack(permits(owner, units))))
  return lasted
end
