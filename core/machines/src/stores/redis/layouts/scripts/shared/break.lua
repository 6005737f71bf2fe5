local all, token = redis.call('HGETALL', key), tonumber(ARGV[1])
for i = 1, #all, 2 do
  local hold = all[i]:match('^o%x+$') and kept(all[i + 1])
  if hold and hold.token == token then
    tell(hold.owner, {'broken', hold.owner:sub(1, 32), key})
    ends_early(hold)
    finish()
    return 1
  end
end
return 0
