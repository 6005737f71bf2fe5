-- The pattern is a key with a star for the name's end; whatever else in it could match is taken literally. In a cluster, where the key
-- has to be one of the node's, it is told apart.
local kind, pattern = 'hash', (ARGV[2] or KEYS[1]):sub(1, -3):gsub('[%*%?%[%]\\]', '\\%0') .. '*}'
