-- A lock's record, where somebody waits for it or the simple case does not hold. What it holds is told in native_scripts.rs.
local owner, owner_card, last, since, lease = '', '', 0, now_text, '0'
local lines, ranked, stays = {[0] = {mark = '', head = 0, tail = 0, waiting = 0}}, false, 0
if r then
  last, stays = tonumber(r:sub(2, 17)), tonumber(r:sub(18, 33))
  if r:byte() ~= 70 then
    owner, since = r:sub(34, 89), r:sub(90, 105)
    if owner == NOBODY then owner = '' else last = last + 63 end
    local line, waiting, head, tail = lines[0], nil, nil, nil
    lease, waiting, head, tail, owner_card = r:match('^(%-?%d+) (%d+) (%d+) (%d+) (.*)$', 106)
    line.waiting, line.head, line.tail = tonumber(waiting), tonumber(head), tonumber(tail)
    ranked = r:byte() == 82
    if ranked then
      for rank, count, first, last in redis.call('HGET', key, 'k'):gmatch('(%d) (%d+) (%d+) (%d+)') do
        lines[tonumber(rank)] = {mark = rank .. '.', waiting = tonumber(count), head = tonumber(first), tail = tonumber(last)}
        line.waiting = line.waiting - count
      end
    end
  end
end
local expires, claimed = since + math.abs(lease), lease:byte() == 45
local me = ARGV[1]:sub(1, 32)
local seat = (ranked or lines[0].waiting > 0) and redis.call('HGET', key, 'a' .. me)
