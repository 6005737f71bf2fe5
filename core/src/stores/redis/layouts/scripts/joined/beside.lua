-- What lies where is told in ../../joined.rs.
local key, beside = KEYS[1], KEYS[2]

local function foreign()
  return redis.error_reply('FOREIGN ' .. redis.call('TYPE', key).ok)
end

-- The first token of the last block, who got it, and its card.
local function record()
  local first, owner, card = (redis.call('GET', beside) or ''):match('^(%d+) (%S+) (.*)$')
  return tonumber(first or 0), owner, card
end
