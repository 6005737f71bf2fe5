local me, copies, sets = ARGV[1], tonumber(ARGV[3]), ARGV[4] == 'set'
if now > tonumber(ARGV[2]) then return {2, now} end
local known = recall(me)
if sets and not known and count and count > 0 then return {0} end

local function open()
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local attempt = all[i]:match('^w(%x+)$')
    if attempt then
      redis.call('HDEL', key, all[i])
      -- A user without the right to publish still counts down: those who wait ask by their timers.
      redis.pcall('PUBLISH', 'lwi:' .. all[i + 1], table.concat({'taken', attempt, 1, now_text, key}, ' '))
    end
  end
end

count = count or tonumber(ARGV[5])
if not known then
  remember(me, copies, '')
  if sets then
    count = tonumber(ARGV[5])
  elseif count == 1 then
    open()
  end
  if not sets then count = math.max(count - 1, 0) end
end
keep(math.max(tonumber(ARGV[6]), copies))
return {1, count}
