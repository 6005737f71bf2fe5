if h[2] ~= ARGV[1] then
  if not h[2] or h[2] == '' then return 0 end
  return redis.call('HGET', key, 'c') or ''
end
-- Nobody waits, and the token is one of its block: it goes back as it came, since printing a large number is slow.
local left = h[3] - ARGV[2]
if not h[4] and left >= 0 and left <= 63 then
  redis.call('HSET', key, 'o', '', 't', ARGV[2])
  return 1
end
