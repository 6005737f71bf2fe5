if is_strange() then return foreign() end
for _, owner in ipairs(redis.call('HKEYS', beside)) do
  local token, _, units = noted(owner)
  if owner ~= 't' and token == tonumber(ARGV[1]) then return free(owner, units) and 1 or 0 end
end
return 0
