-- What becomes of a lock with those who wait for it.
-- The position of one who stood in the queue before counts those who left meanwhile ahead of it: a bound, without a scan.
local function join(claimant, card)
  if seat and not left[me] then return math.min(seat - head, waiting - 1) end
  set('a' .. me, tail)
  set('q' .. tail, claimant .. card)
  tail, waiting, requeued = tail + 1, waiting + 1, true
  return waiting - 1
end

local function pop()
  while waiting > 0 and head < tail do
    local entry = redis.call('HGET', key, 'q' .. head)
    if entry then
      remove(head, entry:sub(1, 32))
      return entry
    end
    head = head + 1
  end
  if waiting > 0 then waiting, requeued = 0, true end
end

-- The key's own end always lies past the lease's, so that no hold can vanish with it; moving it is rare.
local function lasts(span)
  expires = now + math.abs(span)
  set('s', now_text)
  set('l', span)
  if (more[3] or 0) - expires < 300000000 then
    goes = expires + 600000000
    set('v', 1)
    set('g', goes)
  end
end

-- A renewal by the holder, which shortens nothing.
local function prolong(ttl)
  if expires < now + ttl then
    lasts(ttl)
  elseif claimed then
    set('l', -lease)
  end
end

local function grant(to, card, span)
  local first, text = now, now_text
  if last >= now then
    first = last + 1
    text = ('%.0f'):format(first)
  end
  owner, last = to, first + 63
  set('o', owner)
  set('t', text)
  set('c', card)
  lasts(span)
  return text
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
      if to == asker then return grant(to, entry:sub(57), ttl) end
      local first = grant(to, entry:sub(57), '-' .. to:sub(49) .. '000')
      tell(to, {'granted', to:sub(1, 32), first, now_text, key})
      looks = was_renewed
      return
    end
    entry = pop()
  end
end

local function finish()
  if owner == '' then
    set('o', '')
    set('t', last)
  end
  write()
end
