if not h[1] then return false end
local more = redis.call('HMGET', key, 'x', 'c')
local last, waiting = tonumber(h[3] or 0), tonumber(h[4] or 0)
if (h[2] or '') == '' then return {'', 0, 0, last, last, '', waiting} end
local first = last - 63
return {h[2], math.max(now - first, 0), math.max((more[1] or 0) - now, 0), first, last, more[2] or '', waiting}
