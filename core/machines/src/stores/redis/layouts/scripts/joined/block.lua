-- The first of 64 tokens above those of the last block, as a number and as a text: the time in microseconds, if that is higher.
local function block(last)
  if last + 64 <= now then return now, now_text end
  return last + 64, ('%.0f'):format(last + 64)
end

