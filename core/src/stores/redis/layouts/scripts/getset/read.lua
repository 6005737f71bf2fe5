-- A number lies there, the hold's end in units of so many microseconds; what is past is nobody's. Whose it is our record alone
-- knows, so the number that we wrote stands for us from here on.
local attempt, unit = ARGV[1], tonumber(ARGV[#ARGV])
local holder = redis.pcall('GET', key)

local function ends() return (tonumber(holder) + 1) * unit end

if type(holder) == 'string' and holder:find('^%d+%.?%d*$') and ends() <= now then holder = false end

local noted = record
local function record()
  local first, marked, card = noted()
  local owner, number = (marked or ''):match('^(%x+)/(%d+)$')
  return first, number, card, owner
end

local _, number, _, owner = record()
if owner and owner == attempt then ARGV[1] = number end
