for _, owner in ipairs(ARGV) do
  if value == owner then redis.call('DEL', key) end
end
return 1
