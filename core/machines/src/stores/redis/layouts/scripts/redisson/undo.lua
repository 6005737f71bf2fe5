local me = ARGV[1]
local place = redis.call('LPOS', queue, me)
if place then
  redis.call('ZREM', deadlines, me)
  redis.call('LREM', queue, 0, me)
end
if value == me then
  free()
elseif place == 0 and not value then
  wake_first()
end
return 1
