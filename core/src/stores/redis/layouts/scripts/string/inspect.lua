if not value then return false end
if type(value) == 'table' then return foreign() end
local first, owner, card = record()
if owner ~= value then first, card = 0, '' end
return {value, redis.call('PTTL', key), now, first, card}
