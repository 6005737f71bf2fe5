local function left() return redis.call('PTTL', key) end
