-- One page of keys. The pattern is a key with a star for the name's end; whatever else in it could match is taken literally.
local pattern = KEYS[1]:sub(1, -3):gsub('[%*%?%[%]\\]', '\\%0') .. '*}'
local cursor = ARGV[1] == '' and '0' or ARGV[1]
local page = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', 500, 'TYPE', 'hash')
local answer = page[2]
table.insert(answer, 1, page[1] == '0' and '' or page[1])
return answer
