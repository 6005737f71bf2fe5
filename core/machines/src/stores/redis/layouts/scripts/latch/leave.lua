redis.call('HDEL', key, 'w' .. ARGV[1])
return 1
