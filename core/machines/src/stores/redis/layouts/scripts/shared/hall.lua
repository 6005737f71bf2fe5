local function holder(attempt)
  if not held[attempt] then
    local text = redis.call('HGET', key, 'o' .. attempt)
    held[attempt] = text and kept(text)
  end
  return held[attempt]
end

local function keep(hold)
  local attempt = hold.owner:sub(1, 32)
  held[attempt] = hold
  set('o' .. attempt, ('%s%d%010d%016.0f%016.0f%016.0f%s'):format(
    hold.owner, hold.claimed and 1 or 0, hold.units, hold.token, hold.since, hold.expires, hold.card))
end

-- The key's own end always lies past every lease's, so that no hold can vanish with it; moving it is rare. A size that was chosen
-- is kept for 30 days.
local function lasts(expires)
  local stays = resized and 2592000000000 or 600000000
  if (h[7] or 0) - expires < stays / 2 then goes = math.max(goes or 0, expires + stays) end
end

local function prolong(hold, ttl)
  hold.expires = math.max(hold.expires, now + ttl)
  hold.claimed = false
  keep(hold)
  lasts(hold.expires)
end

local function ends(hold)
  local attempt = hold.owner:sub(1, 32)
  used = math.max(used - hold.units, 0)
  held[attempt] = false
  redis.call('HDEL', key, 'o' .. attempt)
end

local function forget_expired()
  if used == 0 or now < soonest then return end
  local all, silent = redis.call('HGETALL', key), {}
  soonest = 0
  for i = 1, #all, 2 do
    local attempt = all[i]:match('^o(%x+)$')
    local hold = attempt and (held[attempt] or kept(all[i + 1]))
    if hold and hold.expires <= now then
      ends(hold)
      if hold.claimed then silent[#silent + 1] = hold end
    elseif hold and (soonest == 0 or hold.expires < soonest) then
      soonest = hold.expires
    end
  end
  -- Who did not even renew its claim: its other waiters would each cost another one.
  table.sort(silent, function(a, b) return a.token < b.token end)
  for _, hold in ipairs(silent) do drop_inbox(hold.owner) end
end

local function next_token()
  last = math.max(last + 1, now)
  return last
end

local function grant(to, units, card, span, claimed)
  local token, expires = next_token(), now + span
  soonest = used == 0 and expires or math.min(soonest, expires)
  used = used + units
  keep({owner = to, claimed = claimed, units = units, token = token, since = now, expires = expires, card = card})
  lasts(expires)
  return token
end

-- Lets in whoever of the queue fits. The asker, if it is among them, gets an answer in the place of a push: its token. The second
-- result says whether nobody is left whom an asker may not overtake.
local function serve(asker, ttl)
  if line.waiting == 0 then return nil, true end
  forget_expired()
  local passed, at, mine = 0, line.head, nil
  while used < capacity and at < line.tail do
    local entry, behind = look_at(line, at)
    if not entry then
      at = behind
    elseif passed == 16 then
      break
    else
      local to, attempt, in_order = entry:sub(1, 56), entry:sub(1, 32), entry:sub(57, 57) == '1'
      local units, asks = tonumber(entry:sub(58, 67)), attempt == asker
      local fits = used + units <= capacity
      -- Who wants more than there is would keep those behind it waiting for ever, and who is not there for long.
      if units > capacity or ((fits or in_order) and not asks and not is_there(to)) then
        at = remove(line, at, attempt)
      elseif not fits and in_order then
        break
      elseif not fits then
        passed, at = passed + 1, behind
      else
        at = remove(line, at, attempt)
        local span = asks and ttl or tonumber(to:sub(49)) * 1000
        local token = grant(to, units, entry:sub(68), span, not asks)
        if asks then
          mine = token
        else
          tell(to, {'taken', attempt, ('%.0f'):format(token), now_text, key})
        end
      end
    end
  end
  return mine, line.waiting == passed
end

-- A hold ends before its time. Where a hand-off follows one that was no claim, the first of those who wait looks after it.
local function ends_early(hold)
  local before = #push
  ends(hold)
  serve()
  looks = not hold.claimed and #push > before
end

local function release(attempt)
  local mine = holder(attempt)
  if not mine then return 0 end
  ends_early(mine)
  return 1
end

local function finish()
  set('u', used)
  set('e', ('%.0f'):format(soonest))
  set('t', ('%.0f'):format(last))
  if goes then set('g', ('%.0f'):format(goes)) end
  if requeued and line.waiting > 0 then
    set('w', line.waiting)
    set('h', line.head)
    set('n', line.tail)
  elseif requeued then
    redis.call('HDEL', key, 'w', 'h', 'n')
  end
  write()
end
