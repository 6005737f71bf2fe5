if not h[1] then return false end
local holds, all = {}, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if all[i]:match('^o%x+$') then holds[#holds + 1] = kept(all[i + 1]) end
end
table.sort(holds, function(a, b) return a.token < b.token end)
local answer = {h[1]:sub(1, -2), capacity, waiting}
-- A client takes no reply of more than 4 MiB: whoever does not fit is counted, in the end.
local size, more, units = 0, 0, 0
for _, hold in ipairs(holds) do
  size = size + #hold.card + 200
  if size <= 3000000 then
    answer[#answer + 1] = {
      hold.owner, now - hold.since, math.max(hold.expires - now, 0), hold.token, hold.units, hold.card,
    }
  else
    more, units = more + 1, units + hold.units
  end
end
if more > 0 then answer[#answer + 1] = {more, units} end
return answer
