-- The first of 64 tokens above those of the last block, as a number and as a text. They are counted where Redisson counts its own;
-- whoever deleted that counter does not make ours fall.
local function block(last)
  local top = redis.call('INCRBY', KEYS[3], 64)
  if last > 0 and top < last + 127 then top = redis.call('INCRBY', KEYS[3], last + 127 - top) end
  return top - 63, ('%.0f'):format(top - 63)
end

