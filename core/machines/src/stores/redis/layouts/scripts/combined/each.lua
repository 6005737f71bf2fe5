-- What each of several callers asks of its own key, one after the other, each with as many arguments as the others. One that fails does not
-- fail the others. The tables are filled anew for each: to make them takes as long as a command.
local answers, keys, given, each, at = {}, {}, {}, #ARGV / #KEYS, 0
for i, key in ipairs(KEYS) do
  keys[1] = key
  for j = 1, each do given[j] = ARGV[at + j] end
  at = at + each
  local is_done, answer = pcall(one, keys, given)
  if not is_done and type(answer) ~= 'table' then answer = redis.error_reply(answer) end
  -- A list would end at nothing.
  if answer == nil then answer = false end
  answers[i] = answer
end
return answers
