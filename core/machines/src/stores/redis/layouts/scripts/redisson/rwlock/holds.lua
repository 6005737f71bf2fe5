local function lease(owner, level) return base .. ':' .. owner .. ':rwlock_timeout:' .. level end

-- How often a reader holds it: Redisson's threads may hold it several times, each with a lease of its own.
local function levels(owner)
  local count = redis.pcall('HGET', key, owner)
  return type(count) == 'string' and tonumber(count) or 0
end

-- For how many milliseconds a reader holds it yet; none for one whose leases are over, though its field may lie there.
local function reads(owner)
  local left = 0
  for level = levels(owner), 1, -1 do left = math.max(left, redis.call('PTTL', lease(owner, level))) end
  return left > 0 and left
end

-- As what an attempt of ours holds it.
local function holds(owner)
  if redis.pcall('HEXISTS', key, owner .. ':write') == 1 then return 'write' end
  return reads(owner) and 'read'
end

-- Makes a hold last for at least so many milliseconds, and what holds it all.
local function keep(owner, as, ttl)
  local keys = as == 'read' and { key, lease(owner, 1) } or { key }
  for _, ends in ipairs(keys) do
    if redis.call('PTTL', ends) < ttl then redis.call('PEXPIRE', ends, ttl) end
  end
  keep_notes(ttl)
end
