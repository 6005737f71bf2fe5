-- Nobody waits for what is given back. What is deleted first is not refused by a server that is full, and then nothing is.
if not h[8] then
  local field = 'o' .. ARGV[1]:sub(1, 32)
  local text = redis.call('HGET', key, field)
  if not text then return 0 end
  redis.call('HDEL', key, field)
  redis.call('HSET', key, 'u', ('%d'):format(math.max(used - text:sub(58, 67), 0)))
  return 1
end
