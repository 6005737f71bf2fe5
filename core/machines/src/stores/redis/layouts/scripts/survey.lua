-- One page of keys that are not ours, or one key alone: each with its type, what is left of it in milliseconds, and the text or
-- the names in it by which it may be known.
local function look(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' and redis.call('STRLEN', key) <= 256 then return kind, redis.call('GET', key) end
  local names = {}
  if kind == 'hash' and redis.call('HLEN', key) <= 16 then names = redis.call('HKEYS', key) end
  if kind == 'zset' and redis.call('ZCARD', key) <= 16 then names = redis.call('ZRANGE', key, 0, -1) end
  return kind, table.concat(names, ' ')
end

local page = {'0', {KEYS[1]}}
if ARGV[1] == 'page' then
  local pattern = KEYS[1]:sub(1, -2):gsub('[%*%?%[%]\\]', '\\%0') .. '*'
  page = redis.call('SCAN', ARGV[2] == '' and '0' or ARGV[2], 'MATCH', pattern, 'COUNT', 500)
end
local answer = {page[1] == '0' and '' or page[1]}
for _, key in ipairs(page[2]) do
  if not key:find('^lwt?:') then
    local kind, text = look(key)
    for _, item in ipairs({key, kind, redis.call('PTTL', key), text}) do answer[#answer + 1] = item end
  end
end
return answer
