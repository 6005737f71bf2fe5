-- What lies where is told in ../../joined.rs.
local key, beside = KEYS[1], KEYS[2]

-- What lies there: its type, and names in it by which its library may be known. Whoever may not look hears the type alone.
local function foreign()
  local kind = redis.call('TYPE', key).ok
  local looks = { hash = { 'HLEN', 'HKEYS' }, zset = { 'ZCARD', 'ZRANGE', 0, -1 } }
  local look, names = looks[kind], {}
  if look then
    local count = redis.pcall(look[1], key)
    if type(count) == 'number' and count <= 16 then names = redis.pcall(look[2], key, unpack(look, 3)) end
  end
  local text = table.concat(names.err and {} or names, ' '):sub(1, 300):gsub('%c', '?')
  return redis.error_reply('FOREIGN ' .. kind .. ' ' .. text)
end

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
