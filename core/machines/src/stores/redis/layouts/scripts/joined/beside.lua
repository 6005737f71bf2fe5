-- The first token of the last block, who got it, and its card.
local function record()
  local first, owner, card = (redis.call('GET', beside) or ''):match('^(%d+) (%S+) (.*)$')
  return tonumber(first or 0), owner, card
end

-- How long a hold lasts yet, in milliseconds.
local function left() return redis.call('PTTL', key) end

-- Makes a hold last for at least so long.
local function keep(_, ttl)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end

-- How the record says whose the tokens are.
local function mark(me) return me end
