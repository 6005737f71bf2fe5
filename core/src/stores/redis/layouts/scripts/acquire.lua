local asker, ttl, card, waits, prev = ARGV[1], ARGV[2], ARGV[4], ARGV[5] == '1', ARGV[6]
if now > tonumber(ARGV[3]) then return {2, now} end

-- The lock of an everyday: free, nobody waits, the key lives long enough. Everything else goes through the queue below.
local last, ends = tonumber(h[3] or 0), now + ttl
if h[2] == '' and not h[4] and prev == '' and (h[5] or 0) - ends > 300000000 then
  local first = last < now and now or last + 1
  redis.call('HSET', key, 'o', asker, 'x', ends, 't', first + 63, 'c', card)
  return first
end
