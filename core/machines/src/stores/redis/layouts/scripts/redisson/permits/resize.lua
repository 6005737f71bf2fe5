if is_strange() then return foreign() end
take_back()
local wanted = ARGV[1] - redis.call('ZCARD', leases)
redis.call('SET', key, wanted, 'KEEPTTL')
tell(wanted)
return 1
