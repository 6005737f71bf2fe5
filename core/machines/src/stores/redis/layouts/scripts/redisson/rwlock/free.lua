-- For how many milliseconds the others read yet; whose leases have ended do not count, though their fields lie there.
local function longest(but)
  local left = 0
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if field ~= 'mode' and field ~= but then left = math.max(left, reads(field) or 0) end
  end
  return left
end

-- Ends a hold, and the lock where it was the last, as Redisson does. Whether it lasted until now.
local function free(owner)
  local as = holds(owner)
  forget(owner)
  if as == 'write' then
    redis.call('DEL', key)
    tell('1')
    return true
  end
  if levels(owner) == 0 then return false end
  redis.call('HDEL', key, owner)
  redis.call('DEL', lease(owner, 1))
  local left = longest()
  if left > 0 then
    redis.call('PEXPIRE', key, left)
  else
    redis.call('DEL', key)
    tell('0')
  end
  return as == 'read'
end
