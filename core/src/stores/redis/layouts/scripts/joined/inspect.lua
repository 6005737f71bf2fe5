if not holder then return false end
if type(holder) == 'table' then return foreign() end
local first, owner, card = record()
if owner ~= holder then first, card = 0, '' end
return {holder, left(), now, first, card}
