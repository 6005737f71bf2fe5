local token, ttl, units = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
if now > tonumber(ARGV[4]) then return {2, now} end
local mine = holder(ARGV[1]:sub(1, 32))
if not mine then return 0 end
prolong(mine, ttl)
if mine.units ~= units and mine.token == token then
  forget_expired()
  local others = math.max(used - mine.units, 0)
  if units < mine.units or others + units <= capacity then
    if units > mine.units then mine.token = next_token() end
    mine.units, used = units, others + units
    keep(mine)
    serve()
  end
end
finish()
return mine.units == units and {1, mine.token} or {0}
