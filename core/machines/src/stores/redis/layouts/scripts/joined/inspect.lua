if type(value) == 'table' then return foreign() end
if not value and waiters == 0 then return false end
local first, owner, card = record()
if owner ~= value then first, card = 0, '' end
return {value or '', left(), now, first, card, waiters}
