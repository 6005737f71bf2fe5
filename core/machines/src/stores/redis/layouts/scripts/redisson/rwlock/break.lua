if is_strange() then return foreign() end
local token = tonumber(ARGV[1])
for _, owner in ipairs(redis.call('HKEYS', beside)) do
  if owner ~= 't' and noted(owner) == token then return free(owner) and 1 or 0 end
end
return 0
