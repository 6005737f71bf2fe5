if not r then return false end
local first = tonumber(r:sub(2, 17))
local lease, waiting, card = r:match('^(%-?%d+) (%d+) %d+ %d+ (.*)$', 106)
waiting = tonumber(waiting or 0)
if not lease or r:sub(34, 89) == NOBODY then return {'lock', '', 0, 0, first, first, '', waiting} end
local remaining = math.max(r:sub(90, 105) - now + math.abs(lease), 0)
return {'lock', r:sub(34, 89), math.max(now - first, 0), remaining, first, first + 63, card, waiting}
