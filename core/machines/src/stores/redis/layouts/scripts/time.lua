local time = redis.call('TIME')
-- Redis takes long to print a large number, and Lua prints it with an exponent.
local now_text = time[2]
if #now_text < 6 then now_text = ('00000'):sub(#now_text) .. now_text end
now_text = time[1] .. now_text
local now = now_text + 0
