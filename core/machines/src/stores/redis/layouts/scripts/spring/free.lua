-- A user who may not publish frees the lock all the same: whoever waits asks again by a timer.
local function free()
  redis.call('DEL', key)
  redis.pcall('PUBLISH', ARGV[2], key)
end
