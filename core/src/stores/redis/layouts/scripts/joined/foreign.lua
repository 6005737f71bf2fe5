-- What lies there: its type, and names in it by which its library may be known. Whoever may not look hears the type alone.
local function foreign()
  local type_of = redis.call('TYPE', key).ok
  local looks = { hash = { 'HLEN', 'HKEYS' }, zset = { 'ZCARD', 'ZRANGE', 0, 15 } }
  local look = looks[type_of]
  local names = {}
  if look then
    local count = redis.pcall(look[1], key)
    if type(count) == 'number' and (count <= 16 or look[3]) then names = redis.pcall(look[2], key, unpack(look, 3)) end
  end
  local text = table.concat(names.err and {} or names, ' '):sub(1, 300):gsub('%c', '?')
  return redis.error_reply('FOREIGN ' .. type_of .. ' ' .. text)
end
