-- A lock's record, where somebody waits for it or the simple case does not hold. What the fields hold is told in native.rs.
local me = ARGV[1]:sub(1, 32)
local more = redis.call('HMGET', key, 's', 'l', 'g', 'h', 'n', 'a' .. me)
local owner, waiting = h[2] or '', tonumber(h[4] or 0)
local last = (h[3] or 0) + (owner == '' and 0 or 63)
local lease = tonumber(more[2] or 0)
local expires, claimed = (more[1] or 0) + math.abs(lease), lease < 0
local head, tail, seat = tonumber(more[4] or 0), tonumber(more[5] or 0), more[6]
