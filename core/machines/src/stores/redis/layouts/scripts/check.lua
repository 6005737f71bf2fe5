-- Refuses a hash that is not ours.
if h.err then return h end
if h[1] ~= '1' and (h[1] or redis.call('EXISTS', key) == 1) then
  return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 1')
end
