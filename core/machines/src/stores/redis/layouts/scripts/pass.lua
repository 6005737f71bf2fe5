local to, from, ttl, card = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
if now > tonumber(ARGV[4]) then return {2, now} end
if owner == to then
  go_on(to, card, ttl)
elseif owner == from then
  grant(to, card, ttl)
else
  return 0
end
finish()
return last - 63
