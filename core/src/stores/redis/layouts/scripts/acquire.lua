local asker, ttl, card, waits, prev = ARGV[1], ARGV[2], ARGV[4], ARGV[5] == '1', ARGV[6]
if now > tonumber(ARGV[3]) then return {2, now} end

-- The lock of every day: free, nobody waits, the key lives long enough, the clock gives the token. Everything else goes through
-- the queue below.
if h[2] == '' and not h[4] and prev == '' and h[3] - now < 0 and (h[5] or 0) - now - ttl > 300000000 then
  redis.call('HSET', key, 'o', asker, 's', now_text, 'l', ttl, 't', now_text, 'c', card)
  return now
end
