-- Has a holder's tokens begin no lower than at this one, of 16 digits.
local r = redis.pcall('HGET', KEYS[1], 'r')
if r and r.err then return r end
if not r or r:sub(34, 89) ~= ARGV[1] then return 0 end
if r:sub(2, 17) < ARGV[2] then redis.call('HSET', KEYS[1], 'r', r:sub(1, 1) .. ARGV[2] .. r:sub(18)) end
return 1
