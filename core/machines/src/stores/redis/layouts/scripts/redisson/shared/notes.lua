-- What we keep of each hold of ours: its token, since when, how many units, its card. What lies where is told in ../../../redisson_shared.rs.
local function noted(owner)
  local token, since, units, card = (redis.call('HGET', beside, owner) or ''):match('^(%d+) (%d+) (%d+) (.*)$')
  return tonumber(token or 0), tonumber(since), tonumber(units), card
end

-- Makes the notes last for longer than a hold that lasts for so many milliseconds.
local function keep_notes(ttl)
  if redis.call('PTTL', beside) < ttl + 600000 then redis.call('PEXPIRE', beside, ttl + 600000) end
end

local function forget(owner) redis.call('HDEL', beside, owner) end
