-- Nobody waits, and it is held by the one attempt that is undone: all tokens of its block may have been used. A server that is full refuses
-- this, and is asked in another way below.
if r and r:byte() == 72 and r:sub(34, 89) == ARGV[1] and (ARGV[2] or '') == '' then
  if redis.pcall('HSET', key, 'r', ('F%016.0f'):format(r:sub(2, 17) + 63) .. r:sub(18, 33)) == 0 then return 1 end
end
