-- The pattern is a key with a star for the name's end; whatever else in it could match is taken literally.
local kind, pattern = 'hash', KEYS[1]:sub(1, -3):gsub('[%*%?%[%]\\]', '\\%0') .. '*}'
