if not h[1] then return false end
local holds, all = {}, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if all[i]:match('^o%x+$') then holds[#holds + 1] = kept(all[i + 1]) end
end
table.sort(holds, function(a, b) return a.token < b.token end)
local answer = {h[1]:sub(1, -2), capacity, waiting}
for _, hold in ipairs(holds) do
  answer[#answer + 1] = {
    hold.owner, now - hold.since, math.max(hold.expires - now, 0), hold.token, hold.units, hold.card,
  }
end
return answer
