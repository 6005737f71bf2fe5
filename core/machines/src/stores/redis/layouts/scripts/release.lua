if not r or r:sub(34, 89) ~= ARGV[1] then
  if not r or r:byte() == 70 or r:sub(34, 89) == NOBODY then return 0 end
  return r:match('^%-?%d+ %d+ %d+ %d+ (.*)$', 106)
end
-- Nobody waits, and the token is one of its block: mostly the first, which is there already. A server that is full refuses this, and is
-- asked in another way below.
if r:byte() == 72 then
  if ARGV[2] == r:sub(2, 17) then
    if redis.pcall('HSET', key, 'r', 'F' .. r:sub(2, 33)) == 0 then return 1 end
  elseif #ARGV[2] == 16 then
    local used = ARGV[2] - r:sub(2, 17)
    if used >= 0 and used <= 63 and redis.pcall('HSET', key, 'r', 'F' .. ARGV[2] .. r:sub(18, 33)) == 0 then return 1 end
  end
end
