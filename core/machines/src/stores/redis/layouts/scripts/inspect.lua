if not h[1] then return false end
local more = redis.call('HMGET', key, 's', 'l', 'c')
local token, waiting = tonumber(h[3] or 0), tonumber(h[4] or 0)
if (h[2] or '') == '' then return {'lock', '', 0, 0, token, token, '', waiting} end
local remaining = math.max((more[1] or 0) + math.abs(more[2] or 0) - now, 0)
return {'lock', h[2], math.max(now - token, 0), remaining, token, token + 63, more[3] or '', waiting}
