if type(holder) == 'table' then return foreign() end
local first, owner = record()
local token = tonumber(ARGV[1])
if not holder or owner ~= holder or token < first or token > first + 63 then return 0 end
free()
return 1
