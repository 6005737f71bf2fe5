if h[1] == 'rwlock1' then return redis.error_reply("FOREIGN this name is a rwlock's") end
capacity, resized = tonumber(ARGV[1]), '1'
set('v', 'semaphore1')
set('m', capacity)
set('z', resized)
lasts(now)
serve()
finish()
return 1
