local holder = redis.pcall('GET', key)
