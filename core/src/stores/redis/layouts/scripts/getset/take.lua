local function take(_, ttl)
  number = ('%.0f'):format(math.floor((now + ttl * 1000) / unit) + 1)
  redis.call('SET', key, number, 'PX', ttl + 600000)
end

local function mark() return attempt .. '/' .. number end

local function keep(me, ttl)
  if ends() > now + ttl * 1000 then return end
  local first, _, card = record()
  take(me, ttl)
  redis.call('SET', beside, ('%.0f'):format(first) .. ' ' .. mark() .. ' ' .. card, 'PX', ttl + 600000)
end
