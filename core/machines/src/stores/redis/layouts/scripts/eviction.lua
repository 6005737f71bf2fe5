-- What the server does when its memory is full; '' where this user may not ask.
local info = redis.pcall('INFO', 'memory')
return type(info) == 'string' and info:match('maxmemory_policy:([%w%-]+)') or ''
