-- Many holds in one request, each with its own answer: one that fails does not fail the others.
local function renew(key, claimant, ttl)
  local field = 'o' .. claimant:sub(1, 32)
  local h = redis.pcall('HMGET', key, 'v', field, 'g', 'z')
  if h.err then return h end
  if h[1] ~= 'rwlock1' and h[1] ~= 'semaphore1' and (h[1] or redis.call('EXISTS', key) == 1) then
    return redis.error_reply("FOREIGN this name is something else's")
  end
  if not h[2] then return 0 end
  local expires = math.max(tonumber(h[2]:sub(100, 115)), now + ttl)
  local text = h[2]:sub(1, 56) .. '0' .. h[2]:sub(58, 99) .. ('%016.0f'):format(expires) .. h[2]:sub(116)
  local stays = h[4] and 2592000000000 or 600000000
  local goes = (h[3] or 0) - expires < stays / 2 and ('%.0f'):format(expires + stays)
  local put = {field, text, goes and 'g' or nil, goes or nil}
  local wrote = redis.pcall('HSET', key, unpack(put))
  if type(wrote) == 'table' then
    -- As for a lock: a server that is full does not refuse it now.
    redis.pcall('HDEL', key, '')
    wrote = redis.pcall('HSET', key, unpack(put))
    if type(wrote) == 'table' then return wrote end
  end
  if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  return 1
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = renew(key, ARGV[2 * i - 1], ARGV[2 * i]) end
return answers
