local function take(owner, as, ttl)
  if as == 'write' then
    redis.call('HSET', key, 'mode', 'write', owner .. ':write', 1)
  else
    redis.call('HSET', key, 'mode', 'read', owner, 1)
    redis.call('SET', lease(owner, 1), 1)
  end
  keep(owner, as, ttl)
end
