local function holds(key, owner)
  return redis.pcall('HEXISTS', key, owner) == 1
end
