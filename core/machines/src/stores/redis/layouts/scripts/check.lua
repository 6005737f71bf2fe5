-- Refuses what is not ours.
if not r and redis.call('EXISTS', key) == 1 then
  return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 2')
end
-- In the place of a holder where there is none and somebody waits.
local NOBODY = '--------------------------------------------------------'
