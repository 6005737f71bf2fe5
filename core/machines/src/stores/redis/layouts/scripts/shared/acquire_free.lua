-- What is had every day: nobody waits, enough is left, no lease has ended, the asker holds nothing, and the key's and the clock's times need no care.
if h[1] == ARGV[6] .. '1' and h[2] == ARGV[8] and not h[8] and last < now and now <= tonumber(ARGV[3])
  and used + ARGV[7] <= capacity and (used == 0 or now < soonest) then
  local field, expires = 'o' .. ARGV[1]:sub(1, 32), now + ARGV[2]
  if (h[7] or 0) - expires >= (resized and 1296000000000 or 300000000) and redis.call('HEXISTS', key, field) == 0 then
    local ends = ('%016.0f'):format(expires)
    redis.call(
      'HSET', key, field, ARGV[1] .. '0' .. ('%010d'):format(ARGV[7]) .. now_text .. now_text .. ends .. ARGV[4],
      'u', ('%d'):format(used + ARGV[7]), 'e', (used == 0 or expires < soonest) and ends or h[5], 't', now_text)
    return now
  end
end
