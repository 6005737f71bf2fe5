if type(value) == 'table' then return foreign() end
local first, owner = record()
local token = tonumber(ARGV[1])
if not value or owner ~= value or token < first or token > first + 63 then return 0 end
free()
return 1
