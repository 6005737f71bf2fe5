if h[2] ~= ARGV[1] then
  if not h[2] or h[2] == '' then return 0 end
  return redis.call('HGET', key, 'c') or ''
end
-- Nobody waits, and the token is one of its block: mostly the first, which is there already. A server that is full refuses this, and is
-- asked in another way below.
if not h[4] then
  if ARGV[2] == h[3] then
    if redis.pcall('HSET', key, 'o', '') == 0 then return 1 end
  else
    local used = ARGV[2] - h[3]
    if used >= 0 and used <= 63 and redis.pcall('HSET', key, 'o', '', 't', ARGV[2]) == 0 then return 1 end
  end
end
