local asker, ttl, not_after, card, waits, prev = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6] or ''
-- Times of as many digits are compared as texts: to read a number takes Lua ten times as long.
if (#not_after ~= 16 or now_text > not_after) and now > tonumber(not_after) then return {2, now} end

-- The lock of every day: free, nobody waits, the key lives long enough, the clock gives the token. Everything else goes through
-- the queue below.
if h[2] == '' and not h[4] and prev == '' and #h[3] == 16 and h[3] < now_text and (h[5] or 0) - now - ttl > 300000000 then
  redis.call('HSET', key, 'o', asker, 's', now_text, 'l', ttl, 't', now_text, 'c', card)
  return now
end
