-- Reads the lock's hash, and refuses one that is not ours. What the fields hold is told in ../native.rs.
local key = KEYS[1]
local h = redis.pcall('HMGET', key, 'v', 'o', 't', 'w', 'g')
if h.err then return h end
if h[1] ~= '1' and (h[1] or redis.call('EXISTS', key) == 1) then
  return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 1')
end
