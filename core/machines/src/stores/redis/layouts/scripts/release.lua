if not r or r:sub(34, 89) ~= ARGV[1] then
  if not r or r:byte() == 70 or r:sub(34, 89) == NOBODY then return 0 end
  return r:match('^%-?%d+ %d+ %d+ %d+ (.*)$', 106)
end
-- Nobody waits. The last token used is mostly the first of its block, which is there already; that of a quorum is another node's, and
-- then what is nearest to it here. A server that is full refuses this, and is asked in another way below.
if r:byte() == 72 then
  local used = r:sub(2, 17)
  if ARGV[2] ~= used then used = ('%016.0f'):format(math.min(used + 63, math.max(used, ARGV[2]))) end
  if redis.pcall('HSET', key, 'r', 'F' .. used .. r:sub(18, 33)) == 0 then return 1 end
end
