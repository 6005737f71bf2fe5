if not value then return 0 end
if value == ARGV[1] then
  free()
  return 1
end
local _, owner, card = record()
return owner == value and card or ''
