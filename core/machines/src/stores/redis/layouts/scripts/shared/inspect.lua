if not h[1] then return false end
-- Of very many only those that are told are read, and tokens are sorted as numbers: nobody else is served meanwhile.
local tokens, texts, all = {}, {}, redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if #all[i] == 33 and all[i]:sub(1, 1) == 'o' then
    local token = tonumber(all[i + 1]:sub(68, 83))
    tokens[#tokens + 1], texts[token] = token, all[i + 1]
  end
end
table.sort(tokens)
local queue, at = {}, line.head
while #queue < 100 and at < line.tail do
  local entry, behind = look_at(line, at)
  if entry then queue[#queue + 1] = {tonumber(entry:sub(58, 67)), entry:sub(68)} end
  at = behind
end
local answer = {h[1]:sub(1, -2), capacity, line.waiting, queue}
-- A reply of thousands takes the server too long, and more than 4 MiB no client takes: whoever does not fit is counted, in the end.
local size, more, units = 0, 0, 0
for _, token in ipairs(tokens) do
  local text = texts[token]
  size = size + #text + 85
  if size <= 500000 then
    local hold = kept(text)
    answer[#answer + 1] = {
      hold.owner, now - hold.since, math.max(hold.expires - now, 0), token, hold.units, hold.card,
    }
  else
    more, units = more + 1, units + tonumber(text:sub(58, 67))
  end
end
if more > 0 then answer[#answer + 1] = {more, units} end
return answer
