local function free()
  redis.call('DEL', key)
end
