local me, memory = ARGV[1], tonumber(ARGV[2])
local noted = recall(me)
local how = noted and passed(noted)
if how then return how end
if redis.call('HDEL', key, 'w' .. me) == 1 then redis.call('HSET', key, 'b', redis.call('HGET', key, 'b') - 1) end
remember(me, memory, '')
count = count or 0
keep(memory)
return 1
