if h[2] ~= ARGV[1] then
  if not h[2] or h[2] == '' then return 0 end
  return redis.call('HGET', key, 'c') or ''
end
-- Nobody waits, and the token is one of its block. A server that is full refuses this, and is asked in another way below.
local used = ARGV[2] - h[3]
if not h[4] and used >= 0 and used <= 63 and type(redis.pcall('HSET', key, 'o', '', 't', ARGV[2])) == 'number' then
  return 1
end
