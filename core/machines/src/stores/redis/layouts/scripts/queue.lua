-- What becomes of a lock with those who wait for it.
local function all_waiting()
  local count = 0
  for _, line in pairs(lines) do count = count + line.waiting end
  return count
end

-- How many are ahead at most: those of the same rank, and all of others. Of one who stood there before it counts those who left
-- meanwhile: a bound, without a scan.
local function join(claimant, card, rank)
  if seat and not left[me] then
    local line, seq = seat_at(seat)
    return math.min(seq - line.head, line.waiting - 1) + all_waiting() - line.waiting
  end
  local line = lines[rank] or {mark = rank .. '.', head = 0, tail = 0, waiting = 0}
  seat = line.mark .. line.tail
  -- At once: it may be its turn before the rest is written.
  redis.call('HSET', key, 'a' .. me, seat, 'q' .. seat, claimant .. now_text .. card)
  left[me] = nil
  lines[rank], ranked, requeued = line, ranked or rank > 0, true
  line.tail, line.waiting = line.tail + 1, line.waiting + 1
  return all_waiting() - 1
end

local function pop()
  local line = next_line()
  while line do
    local entry, behind = look_at(line, line.head)
    if entry then
      remove(line, line.head, entry:sub(1, 32))
      return entry
    end
    line.head = behind
    if line.head >= line.tail then line.waiting, line = 0, next_line() end
  end
end

-- The key's own end always lies past the lease's, so that no hold can vanish with it; moving it is rare.
local function lasts(span)
  expires, since, lease = now + math.abs(span), now_text, span
  if stays + 100000000 < expires then
    goes, stays = expires + 600000000, expires + 200000000
  end
end

-- A renewal by the holder, which shortens nothing.
local function prolong(ttl)
  if expires < now + ttl then
    lasts(ttl)
  elseif claimed then
    lease = lease:sub(2)
  end
end

local function grant(to, card, span)
  local first = last < now and now_text or ('%016.0f'):format(last + 1)
  owner, owner_card, last = to, card, first + 63
  lasts(span)
  return first
end

-- The holder asks again: its lease goes on. One that has ended is a new one, under new tokens, since the record may be that of a
-- replica that was promoted, and the lost master may have granted higher ones meanwhile.
local function go_on(holder, card, ttl)
  if expires > now then prolong(ttl) else grant(holder, card, ttl) end
end

local was_renewed = owner ~= '' and not claimed

local function free(used)
  last = math.min(last, math.max(used, last - 63))
  owner = ''
end

-- A grant to the asker itself is no hand-off: it gets an answer, and the whole ttl.
local function hand_over(asker, ttl)
  local entry = pop()
  while entry do
    local to = entry:sub(1, 56)
    if is_there(to) then
      if to == asker then return grant(to, entry:sub(73), ttl) end
      local first = grant(to, entry:sub(73), '-' .. to:sub(49) .. '000')
      tell(to, {'granted', to:sub(1, 32), first, now_text, key})
      looks = was_renewed
      return
    end
    entry = pop()
  end
end

-- What of the record tells who waits: its letter, and numbers. Those of the higher ranks are a field of their own.
local function who_waits()
  local count, first, others = all_waiting(), lines[0], {}
  for rank = 1, 9 do
    local line = lines[rank]
    if line and line.waiting > 0 then others[#others + 1] = ('%d %d %d %d'):format(rank, line.waiting, line.head, line.tail) end
  end
  if #others > 0 then
    set('k', table.concat(others, ' '))
  elseif ranked then
    redis.call('HDEL', key, 'k')
  end
  if first.waiting == 0 then first.head, first.tail = 0, 0 end
  local letter = #others > 0 and 'R' or count > 0 and 'Q' or 'H'
  return letter, (' %d %d %d '):format(count, first.head, first.tail)
end

local function finish()
  local text = ('%016.0f%016.0f'):format(owner == '' and last or last - 63, stays)
  local letter, numbers = who_waits()
  if owner == '' and letter == 'H' then
    text = 'F' .. text
  else
    text = letter .. text .. (owner == '' and NOBODY or owner) .. since .. lease .. numbers .. owner_card
  end
  if not r then set('v', '2') end
  set('r', text)
  write()
end
