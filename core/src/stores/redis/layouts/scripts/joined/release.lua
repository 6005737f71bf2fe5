if not holder then return 0 end
if holder == ARGV[1] then
  free()
  return 1
end
local _, owner, card = record()
return owner == holder and card or ''
