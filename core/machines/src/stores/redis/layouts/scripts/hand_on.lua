-- The hand-off of every day: a claim ends, behind the next in line is no gap, the key lives long enough, the clock gives the token. Whoever
-- gives the lock back may take the last seat in the same step. Answers how long the claim lasts; nothing where it is no such day, and the
-- queue is then as it was.
local function hand_on(used, joins)
  -- All tokens that may be in use lie before the present, so it does not matter which of them were used.
  local stays = r:sub(18, 33)
  if #used ~= 16 or used >= now_text or r:sub(2, 17) >= now_text or stays <= now_text then return end
  local waiting, seat, tail = r:match('^%-%d+ (%d+) (%d+) (%d+) ', 106)
  if not waiting then return end
  local behind = ('%d'):format(seat + 1)
  local found = redis.call('HMGET', key, 'q' .. seat, 'x' .. behind)
  local entry = found[1]
  if not entry or found[2] or entry:sub(49, 51) ~= '000' then return end
  local to, attempt, span = entry:sub(1, 56), entry:sub(1, 32), entry:sub(49, 56) .. '000'

  local function grant(flag, waiting, head, tail, ...)
    local numbers = (' %d %d %d '):format(waiting, head, tail)
    redis.call('HSET', key, 'r', flag .. now_text .. stays .. to .. now_text .. '-' .. span .. numbers .. entry:sub(73), ...)
  end
  -- What is deleted first is never refused, and then a server that is full refuses nothing more.
  redis.call('HDEL', key, 'q' .. seat, 'a' .. attempt)
  if joins then
    grant('Q', waiting, behind, tail + 1, 'a' .. joins:sub(1, 32), tail, 'q' .. tail, joins)
  elseif waiting == '1' then
    grant('H', 0, 0, 0)
  else
    grant('Q', waiting - 1, behind, tail)
  end
  -- Only what is written is told. The server says how many heard it; it does not say so to a user without the right to publish.
  local words = 'granted ' .. attempt .. ' ' .. now_text .. ' ' .. now_text .. ' ' .. key
  local heard = redis.pcall('PUBLISH', 'lwi:' .. to:sub(33, 48), words)
  if heard ~= 0 and type(heard) == 'number' then return tonumber(span) end

  -- Nobody did: everybody is back in their seats, and what follows looks for the next who is there.
  if joins then redis.call('HDEL', key, 'a' .. joins:sub(1, 32), 'q' .. tail) end
  redis.call('HSET', key, 'q' .. seat, entry, 'a' .. attempt, seat, 'r', r)
end
