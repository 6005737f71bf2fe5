-- A latch, or a barrier. What the fields hold is told in latch.rs and barrier.rs.
local key = KEYS[1]
local h = redis.pcall('HMGET', key, 'v', 'c', 'g')
if h.err then return h end
if h[1] ~= kind and (h[1] or redis.call('EXISTS', key) == 1) then
  local what = h[1] == '2' and 'a lock' or h[1] and h[1]:match('^%l+1$') and 'a ' .. h[1]:sub(1, -2) or 'something else'
  return redis.error_reply('FOREIGN this name is ' .. what .. "'s")
end
local count = h[1] and tonumber(h[2])
