-- A member for each holder, with its end as its score; `__write__` as one more says that there is only one. Among several
-- somebody other than the asker counts.
local now_ms = math.floor(now / 1000)
local live = redis.pcall('ZRANGEBYSCORE', key, '(' .. ('%.0f'):format(now_ms), '+inf', 'WITHSCORES')
local holder, ends = false, 0
if live.err then
  holder = live
else
  for i = 1, #live, 2 do
    ends = math.max(ends, tonumber(live[i + 1]))
    if live[i] ~= '__write__' and (not holder or holder == ARGV[1]) then holder = live[i] end
  end
end
