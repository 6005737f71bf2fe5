-- Many locks in one request, each with its own answer: one that fails does not fail the others.
local function renew(key, claimant, ttl)
  local h = redis.pcall('HMGET', key, 'v', 'o', 's', 'l', 'g')
  if h.err then return h end
  if h[1] ~= '1' and (h[1] or redis.call('EXISTS', key) == 1) then
    return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 1')
  end
  if h[2] ~= claimant then return 0 end
  local lease, expires = tonumber(h[4] or 0), now + ttl
  local put = {'s', now_text, 'l', ttl}
  if (h[3] or 0) + math.abs(lease) >= expires then
    if lease >= 0 then return 1 end
    put = {'l', -lease}
  end
  local goes = (h[5] or 0) - expires < 300000000 and expires + 600000000
  if goes then
    put[#put + 1] = 'g'
    put[#put + 1] = goes
  end
  local wrote = redis.pcall('HSET', key, unpack(put))
  if type(wrote) == 'table' then
    -- A server that is full refuses it, but not to a script that has written already, if only to change nothing.
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
