local key = KEYS[1]
local h = redis.pcall('HMGET', key, 'v', 'o', 't', 'w', 'g')
