-- Many locks in one request, each with its own answer: one that fails does not fail the others.
local function renew(key, claimant, ttl)
  local r = redis.pcall('HGET', key, 'r')
  if r and r.err then return r end
  if not r and redis.call('EXISTS', key) == 1 then
    return redis.error_reply('FOREIGN this key is not a lock of the layout native, version 2')
  end
  if not r or r:sub(34, 89) ~= claimant then return 0 end
  local lease, rest = r:match('^(%-?%d+)(.*)$', 106)
  local stays, expires, goes = r:sub(18, 33), now + ttl, nil
  local text
  if r:sub(90, 105) + math.abs(lease) >= expires then
    if lease:byte() ~= 45 then return 1 end
    text = r:sub(1, 105) .. lease:sub(2) .. rest
  else
    if stays + 100000000 < expires then
      stays, goes = ('%016.0f'):format(expires + 200000000), expires + 600000000
    end
    text = r:sub(1, 17) .. stays .. claimant .. now_text .. ttl .. rest
  end
  local wrote = redis.pcall('HSET', key, 'r', text)
  if type(wrote) == 'table' then
    -- A server that is full refuses it, but not to a script that has written already, if only to change nothing.
    redis.pcall('HDEL', key, '')
    wrote = redis.pcall('HSET', key, 'r', text)
    if type(wrote) == 'table' then return wrote end
  end
  if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  return 1
end

local answers = {}
for i, key in ipairs(KEYS) do answers[i] = renew(key, ARGV[2 * i - 1], ARGV[2 * i]) end
return answers
