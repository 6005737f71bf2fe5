-- The lock's key and our record beside it. What lies there is told in ../../joined.rs. What follows says who holds the lock: a
-- text, nothing, or, for a key of another kind, a table.
local key, beside = KEYS[1], KEYS[2]

-- The first token of the last block, who got it, and its card.
local function record()
  local first, owner, card = (redis.call('GET', beside) or ''):match('^(%d+) (%S+) (.*)$')
  return tonumber(first or 0), owner, card
end
