-- What the text holds is told in ../native_scripts.rs.
local key = KEYS[1]
local r = redis.pcall('HGET', key, 'r')
if r and r.err then return r end
