-- Since when this server has had what it keeps: "<run> <max_ttl> <first seen>", times in microseconds.
local key, run, longest = KEYS[1], ARGV[1], ARGV[2]
if run == '' then
  return redis.error_reply('NOPERM this user may not ask for the run of the server (INFO server), by which a restart is noticed')
end
local marker = redis.call('GET', key)
local of, kept, since
if marker then of, kept, since = marker:match('^(%S+) (%d+) (%d+)$') end
if of == run and kept ~= longest then return {tonumber(kept)} end
local left = of == run and since + longest - now
-- A clock that was set back since then does not tell how long ago that was.
if not left or left > tonumber(longest) then
  redis.call('SET', key, run .. ' ' .. longest .. ' ' .. now_text)
  return tonumber(longest)
end
if left > 0 then return left end
return marker
