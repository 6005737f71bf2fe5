local me, ttl, card, units, capacity, is_exact = ARGV[1], tonumber(ARGV[2]), ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
if now > tonumber(ARGV[3]) then return {2, now} end
if is_strange() then return foreign() end
take_back()
if ends(me) then
  -- Asked again: its first answer was lost.
  keep(me, units, ttl)
  local token = noted(me)
  if token > 0 then return token end
else
  local held = redis.call('ZCARD', leases)
  if not available then redis.call('SET', key, capacity - held) end
  available = tonumber(redis.call('GET', key))
  if is_exact == '1' and units > available + held then
    return redis.error_reply('TOOMANY it has ' .. available + held .. ' permits')
  end
  if units > available then
    local first = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2]
    local left = math.min((first or millis + 86400000) - millis, 86400000)
    return {0, now, left * 1000}
  end
  forget_gone(held, ends)
  redis.call('DECRBY', key, units)
  keep(me, units, ttl)
  local goes = redis.call('PTTL', key)
  if goes > 0 then redis.call('PEXPIRE', leases, goes) end
end
return note(me, units, card, ttl)
