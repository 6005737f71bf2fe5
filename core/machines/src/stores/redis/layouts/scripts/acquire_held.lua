-- Held by somebody else, or by whom the asker gives back: it takes the last seat of the lowest rank, as long as it has none yet.
local holder = r and r:sub(34, 89) or ''
if holder ~= '' and holder ~= NOBODY and holder ~= asker then
  local attempt = 'a' .. asker:sub(1, 32)
  local lease, waiting, head, tail, its_card = r:match('^(%-?%d+) (%d+) (%d+) (%d+) (.*)$', 106)
  local remaining = r:sub(90, 105) - now + math.abs(lease)
  if prev == '' and remaining > 0 then
    if not waits then return {0, now, remaining, 0} end
    if ARGV[5] == '1' and redis.call('HEXISTS', key, attempt) == 0 then
      local numbers = (' %d %d %d '):format(waiting + 1, head, tail + 1)
      redis.call('HSET', key, attempt, tail, 'q' .. tail, asker .. now_text .. card, 'r',
        (r:byte() == 82 and 'R' or 'Q') .. r:sub(2, 105) .. lease .. numbers .. its_card)
      return {1, now, remaining, tonumber(waiting), 0}
    end
  elseif ARGV[5] == '1' and r:byte() == 81 and holder == prev and redis.call('HEXISTS', key, attempt) == 0 then
    local span = hand_on(ARGV[7], asker .. now_text .. card)
    if span then return {1, now, span, waiting - 1, 0} end
  end
end
