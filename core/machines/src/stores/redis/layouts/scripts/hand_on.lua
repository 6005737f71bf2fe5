-- The hand-off of every day: a claim ends, behind the next in line is no gap, the key lives long enough, the clock gives the token. Whoever
-- gives the lock back may take the last seat in the same step. Answers how long the claim lasts; nothing where it is no such day, and the
-- queue is then as it was.
local function hand_on(used, joins)
  -- All tokens that may be in use lie before the present, so it does not matter which of them were used.
  if #used ~= 16 or used >= now_text or #h[3] ~= 16 or h[3] >= now_text then return end
  local more = redis.call('HMGET', key, 'g', 'l', 'h', 'n')
  if more[2]:byte() ~= 45 then return end
  local seat, tail = more[3], more[4]
  local behind = ('%d'):format(seat + 1)
  local found = redis.call('HMGET', key, 'q' .. seat, 'x' .. behind)
  local entry = found[1]
  if not entry or found[2] then return end
  local to, attempt, span = entry:sub(1, 56), entry:sub(1, 32), entry:sub(49, 56) .. '000'
  if more[1] - now - span < 300000000 then return end

  local function grant(...)
    redis.call('HSET', key, 'o', to, 's', now_text, 'l', '-' .. span, 't', now_text, 'c', entry:sub(57), ...)
  end
  -- What is deleted first is never refused, and then a server that is full refuses nothing more.
  if h[4] == '1' and not joins then
    redis.call('HDEL', key, 'q' .. seat, 'a' .. attempt, 'w', 'h', 'n')
    grant()
  else
    redis.call('HDEL', key, 'q' .. seat, 'a' .. attempt)
    if joins then
      grant('h', behind, 'a' .. joins:sub(1, 32), tail, 'q' .. tail, joins, 'n', ('%d'):format(tail + 1))
    else
      grant('h', behind, 'w', ('%d'):format(h[4] - 1))
    end
  end
  -- Only what is written is told. The server says how many heard it; it does not say so to a user without the right to publish.
  local words = 'granted ' .. attempt .. ' ' .. now_text .. ' ' .. now_text .. ' ' .. key
  local heard = redis.pcall('PUBLISH', 'lwi:' .. to:sub(33, 48), words)
  if heard ~= 0 and type(heard) == 'number' then return tonumber(span) end

  -- Nobody did: everybody is back in their seats, and what follows looks for the next who is there. Of the hold it knows enough.
  if joins then redis.call('HDEL', key, 'a' .. joins:sub(1, 32), 'q' .. tail) end
  redis.call('HSET', key, 'q' .. seat, entry, 'a' .. attempt, seat, 'w', h[4], 'h', seat, 'n', tail)
end
