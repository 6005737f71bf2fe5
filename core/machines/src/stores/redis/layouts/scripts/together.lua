-- All locks or none, or the first that is free: `acquire` and `undo` are the scripts of these names, for one lock each.
local all, answers, winner = ARGV[1] == '1', {}, nil

local function is_granted(answer)
  return type(answer) == 'number' or answer[1] == 3
end

for i, key in ipairs(KEYS) do
  if winner then
    answers[i] = {0, now, 0, 0}
  else
    answers[i] = acquire({key}, {unpack(ARGV, 7 * i - 5, 7 * i + 1)})
    if is_granted(answers[i]) ~= all then winner = i end
  end
end
-- With all wanted, the first that cannot be had wins: nobody may see that the ones before it were taken for a moment.
for i = 1, all and winner and winner - 1 or 0 do
  undo({KEYS[i]}, {ARGV[7 * i - 5], ''})
  answers[i] = {0, now, 0, 0}
end
return answers
