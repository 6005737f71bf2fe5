-- A shared record. What the fields hold is told in shared.rs.
local key = KEYS[1]
local h = redis.pcall('HMGET', key, 'v', 'm', 'z', 'u', 'e', 't', 'g', 'w', 'h', 'n')
if h.err then return h end
if h[1] ~= 'rwlock1' and h[1] ~= 'semaphore1' and (h[1] or redis.call('EXISTS', key) == 1) then
  return redis.error_reply(h[1] == '2' and "FOREIGN this name is a lock's" or "FOREIGN this name is something else's")
end
local capacity, resized, used = tonumber(h[2] or 0), h[3], tonumber(h[4] or 0)
local soonest, last = tonumber(h[5] or 0), tonumber(h[6] or 0)
local line = {mark = '', waiting = tonumber(h[8] or 0), head = tonumber(h[9] or 0), tail = tonumber(h[10] or 0)}
local lines, ranked = {[0] = line}, false
local held = {}

local function kept(text)
  return {
    owner = text:sub(1, 56), claimed = text:sub(57, 57) == '1', units = tonumber(text:sub(58, 67)),
    token = tonumber(text:sub(68, 83)), since = tonumber(text:sub(84, 99)), expires = tonumber(text:sub(100, 115)),
    card = text:sub(116),
  }
end
