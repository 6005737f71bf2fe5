-- The server's clock in microseconds, and what it says of itself; '' for a section that this user may not ask for.
local at = redis.call('TIME')
local said = {}
for _, section in ipairs({'server', 'memory', 'persistence', 'replication', 'stats'}) do
  local info = redis.pcall('INFO', section)
  said[#said + 1] = type(info) == 'string' and info or ''
end
return {at[1] * 1000000 + at[2], table.concat(said, '\n')}
