-- Many locks in one request, each with its own answer: one that fails does not fail the others.
local text = time[1] .. ('00000'):sub(#time[2]) .. time[2]

local function renew(key, claimant, ttl)
  local h = redis.pcall('HMGET', key, 'v', 'o', 's', 'l', 'g', 'k')
  if h.err then return h end
  if h[1] ~= '1' and (h[1] or redis.call('EXISTS', key) == 1) then
    return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 1')
  end
  if h[2] ~= claimant then return 0 end
  local expires = now + ttl
  if (h[3] or 0) + (h[4] or 0) < expires then
    local put = {'s', text, 'l', ttl}
    local goes = (h[5] or 0) - expires < 300000000 and expires + 600000000
    if goes then put[5], put[6] = 'g', goes end
    local wrote = redis.pcall('HSET', key, unpack(put))
    if type(wrote) == 'table' then return wrote end
    if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  end
  if h[6] then redis.call('HDEL', key, 'k') end
  return 1
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = renew(key, ARGV[2 * i - 1], ARGV[2 * i]) end
return answers
