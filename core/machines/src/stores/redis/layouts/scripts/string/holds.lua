local function holds(key, owner)
  return redis.pcall('GET', key) == owner
end
