-- Held by somebody else, or by whom the asker gives back: it takes the last seat, as long as it has none yet.
if h[2] and h[2] ~= '' and h[2] ~= asker then
  local attempt = asker:sub(1, 32)
  local more = redis.call('HMGET', key, 's', 'l', 'n', 'a' .. attempt)
  local remaining = (more[1] or 0) + math.abs(more[2] or 0) - now
  if prev == '' and remaining > 0 then
    if not waits then return {0, now, remaining, 0} end
    if not more[4] then
      local seat, known = more[3] or '0', not h[4] and {'h', '0'} or {}
      local count, behind = ('%d'):format((h[4] or 0) + 1), ('%d'):format(seat + 1)
      redis.call('HSET', key, 'a' .. attempt, seat, 'q' .. seat, asker .. card, 'w', count, 'n', behind, unpack(known))
      return {1, now, remaining, tonumber(h[4] or 0), 0}
    end
  elseif waits and not more[4] and h[2] == prev and h[4] then
    local span = hand_on(ARGV[7], asker .. card)
    if span then return {1, now, span, h[4] - 1, 0} end
  end
end
