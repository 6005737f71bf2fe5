-- An acquisition that writes no record.
local me, ttl = ARGV[1], tonumber(ARGV[2])
if now > tonumber(ARGV[3]) then return {2, now} end
if type(value) == 'table' then return foreign() end
if value and value ~= me then return {0, now, left(), value} end
-- Its own already: its first answer was lost.
if value then keep(me, ttl) else take(me, ttl) end
return 1
