local time = redis.call('TIME')
-- Of 16 digits always, so that times are compared as texts: to read a number takes Lua ten times as long, and to print one longer yet.
local now_text = time[1] .. time[2]
if #now_text ~= 16 then now_text = ('%010d%06d'):format(time[1], time[2]) end
local now = now_text + 0
