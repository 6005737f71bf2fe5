-- Has the tokens of the last grant, if that is this owner's, begin no lower than at this one.
local first, owner, card = (redis.call('GET', KEYS[2]) or ''):match('^(%d+) (%S+) (.*)$')
if owner ~= ARGV[1] then return 0 end
if tonumber(first) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. owner .. ' ' .. card, 'KEEPTTL')
end
return 1
