-- In a cluster whoever waits hears what is told in the shard of the lock; the last argument says so then.
local sharded = ARGV[#ARGV] == 'SPUBLISH' and table.remove(ARGV)

-- A user who may not publish frees the lock all the same: whoever waits asks again by a timer. Before Redis 7 there are no shards.
local function publish(channel, message)
  local told = redis.pcall(sharded or 'PUBLISH', channel, message)
  if sharded and type(told) == 'table' then redis.pcall('PUBLISH', channel, message) end
end

