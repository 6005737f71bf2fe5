local asker, ttl, not_after, card, waits, prev = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] ~= '0', ARGV[6] or ''
if (#not_after ~= 16 or now_text > not_after) and now > tonumber(not_after) then return {2, now} end

-- The lock of every day: free, nobody waits, the key lives long enough, the clock gives the token. Everything else goes through
-- the queue below.
if r and r:byte() == 70 and prev == '' and r:sub(2, 17) < now_text then
  local stays = r:sub(18, 33)
  if #ttl < 9 and stays > now_text or stays - now - ttl > -100000000 then
    redis.call('HSET', key, 'r', 'H' .. now_text .. stays .. asker .. now_text .. ttl .. ' 0 0 0 ' .. card)
    return now
  end
end
