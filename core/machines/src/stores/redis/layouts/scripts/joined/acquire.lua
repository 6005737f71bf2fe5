local me, ttl = ARGV[1], tonumber(ARGV[2])
if now > tonumber(ARGV[3]) then return {2, now} end
if type(value) == 'table' then return foreign() end
if value and value ~= me then return {0, now, left(), value} end
return grant(me, ttl, ARGV[4])
