local waiting, all = 0, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if all[i]:match('^w%x+$') then waiting = waiting + 1 end
end
return {'latch', count, waiting}
