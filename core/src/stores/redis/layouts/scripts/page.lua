-- One page of the keys of a kind that match.
local cursor = ARGV[1] == '' and '0' or ARGV[1]
local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 500, 'TYPE', kind)
local answer = page[2]
table.insert(answer, 1, page[1] == '0' and '' or page[1])
return answer
