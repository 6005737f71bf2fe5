local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- Redis takes long to print a large number, and Lua prints it with an exponent.
local now_text = time[1] .. ('00000'):sub(#time[2]) .. time[2]
