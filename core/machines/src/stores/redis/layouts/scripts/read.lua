-- What the fields hold is told in ../native.rs.
local key = KEYS[1]
local h = redis.pcall('HMGET', key, 'v', 'o', 't', 'w')
