if h[1] then although_full() end
local attempt = ARGV[1]:sub(1, 32)
leave(attempt)
if release(attempt) == 0 then serve() end
if h[1] then finish() end
return 1
