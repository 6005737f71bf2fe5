-- A number lies there, the hold's end in units of so many microseconds; what is past is nobody's. Whose it is our record alone
-- knows, so the number that we wrote stands for us from here on.
local attempt, unit = ARGV[1], tonumber(ARGV[#ARGV])
local value = redis.pcall('GET', key)

local function ends() return (tonumber(value) + 1) * unit end

if type(value) == 'string' and value:find('^%d+%.?%d*$') and ends() <= now then value = false end

local noted = record
local function record()
  local first, marked, card = noted()
  local owner, number = (marked or ''):match('^(%x+)/(%d+)$')
  return first, number, card, owner
end

local _, number, _, owner = record()
if owner and owner == attempt then ARGV[1] = number end

local function left()
  return value:find('^%d+%.?%d*$') and math.floor((ends() - now) / 1000) or -1
end

local function take(_, ttl)
  number = ('%.0f'):format(math.floor((now + ttl * 1000) / unit) + 1)
  redis.call('SET', key, number, 'PX', ttl + 600000)
end

local function mark() return attempt .. '/' .. number end

local function keep(me, ttl)
  if ends() > now + ttl * 1000 then return end
  local first, _, card = record()
  take(me, ttl)
  redis.call('SET', beside, ('%.0f'):format(first) .. ' ' .. mark() .. ' ' .. card, 'PX', ttl + 600000)
end
