-- One page of the keys that match, of one kind where one is said.
local cursor = ARGV[1] == '' and '0' or ARGV[1]
local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 500, unpack(kind and { 'TYPE', kind } or {}))
local answer = page[2]
table.insert(answer, 1, page[1] == '0' and '' or page[1])
return answer
