if now > tonumber(ARGV[2]) then return {2, now} end
count = count or tonumber(ARGV[4])
keep(tonumber(ARGV[5]))
if count == 0 then return 1 end
if ARGV[3] ~= '1' then return {0, now, count} end
redis.call('HSET', key, 'w' .. ARGV[1]:sub(1, 32), ARGV[1]:sub(33, 48))
return {1, now, count}
