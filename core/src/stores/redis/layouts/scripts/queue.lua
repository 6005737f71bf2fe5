-- What a lock does when somebody waits for it or the simple case does not hold. Changes gather in `put` and are written by
-- `finish`, in one command; only what leaves the queue is deleted at once, since a later step may look for it.
local me = ARGV[1]:sub(1, 32)
local more = redis.call('HMGET', key, 's', 'l', 'g', 'h', 'n', 'a' .. me)
local owner, waiting = h[2] or '', tonumber(h[4] or 0)
local last = (h[3] or 0) + (owner == '' and 0 or 63)
local lease = tonumber(more[2] or 0)
local expires, claimed = (more[1] or 0) + math.abs(lease), lease < 0
local head, tail, seat = tonumber(more[4] or 0), tonumber(more[5] or 0), more[6]
local put, push, requeued, goes = {}, {}, false, nil

local function set(field, value)
  put[#put + 1] = field
  put[#put + 1] = value
end

local function remove(seq, attempt)
  redis.call('HDEL', key, 'q' .. seq, 'a' .. attempt)
  waiting, requeued = waiting - 1, true
  if attempt == me then seat = nil end
end

local function leave(attempt)
  local seq = redis.call('HGET', key, 'a' .. attempt)
  if seq then remove(seq, attempt) end
end

-- The position of one who stood in the queue before counts those who left meanwhile ahead of it: a bound, without a scan.
local function join(claimant, card)
  if seat then return math.min(seat - head, waiting - 1) end
  set('a' .. me, tail)
  set('q' .. tail, claimant .. card)
  tail, waiting, requeued = tail + 1, waiting + 1, true
  return waiting - 1
end

local function pop()
  if waiting == 0 then return end
  while waiting > 0 and head < tail do
    local seq = head
    head, requeued = head + 1, true
    local entry = redis.call('HGET', key, 'q' .. seq)
    if entry then
      remove(seq, entry:sub(1, 32))
      return entry
    end
  end
  waiting, requeued = 0, true
end

local function drop_inbox(inbox)
  for seq = head, tail - 1 do
    local entry = redis.call('HGET', key, 'q' .. seq)
    if entry and entry:sub(33, 48) == inbox then remove(seq, entry:sub(1, 32)) end
  end
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

local function free(used)
  last = math.min(last, math.max(used, last - 63))
  owner = ''
end

-- A grant to the asker itself is no hand-off: it gets an answer, and the whole ttl.
local function hand_over(asker, ttl)
  local entry = pop()
  while entry do
    local to = entry:sub(1, 56)
    local channel = 'lwi:' .. to:sub(33, 48)
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', channel)
    if listeners.err or listeners[2] > 0 then
      if to == asker then return grant(to, entry:sub(57), ttl) end
      local first = grant(to, entry:sub(57), '-' .. to:sub(49) .. '000')
      push[#push + 1] = {channel, table.concat({'granted', to:sub(1, 32), first, now_text, key}, ' ')}
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
  if requeued and waiting > 0 then
    set('w', waiting)
    set('h', head)
    set('n', tail)
  elseif requeued then
    redis.call('HDEL', key, 'w', 'h', 'n')
  end
  if #put > 0 then redis.call('HSET', key, unpack(put)) end
  if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  -- A user without the right to publish still releases: the next in the queue asks by its timer.
  for _, message in ipairs(push) do redis.pcall('PUBLISH', message[1], message[2]) end
end
