-- The server's clock in microseconds, what it says of itself, '' for a section that this user may not ask for, and which of the
-- commands that locks need it may not use, where the server tells that.
local at = redis.call('TIME')
local said = {}
for _, section in ipairs({'server', 'memory', 'persistence', 'replication', 'stats'}) do
  local info = redis.pcall('INFO', section)
  said[#said + 1] = type(info) == 'string' and info or ''
end
local reply = {at[1] * 1000000 + at[2], table.concat(said, '\n')}
for _, command in ipairs(redis.acl_check_cmd and ARGV or {}) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word == '@' and KEYS[1] or word end
  local knows, may = pcall(redis.acl_check_cmd, unpack(words))
  if knows and not may then reply[#reply + 1] = command end
end
return reply
