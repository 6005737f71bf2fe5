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

