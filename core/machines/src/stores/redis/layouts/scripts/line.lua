-- Those who wait for what a record is about, and the end of a script that changed it. Changes gather in `put` and are written in one
-- command; only what leaves the queue is deleted at once, since a later step may look for it.
local put, push, left, requeued, goes, looks = {}, {}, {}, false, nil, false

local function set(field, value)
  put[#put + 1] = field
  put[#put + 1] = value
end

-- Who has a seat, and which seat comes next. Behind one that somebody left comes the end of the whole gap.
local function look_at(seq)
  local found = redis.call('HMGET', key, 'q' .. seq, 'x' .. seq)
  return found[1], (not found[1] and found[2] or seq) + 1
end

-- Takes somebody off a seat; which seat comes next. A gap in the queue's middle is noted at its first and its last seat, each of which
-- names the other, so that nobody ever walks through it; the queue begins and ends with a seat that is taken.
local function remove(seq, attempt)
  local first, last = seq, seq
  redis.call('HDEL', key, 'q' .. seq, 'a' .. attempt)
  if tail - head > waiting then
    local gaps = redis.call('HMGET', key, 'x' .. seq - 1, 'x' .. seq + 1)
    first, last = tonumber(gaps[1] or seq), tonumber(gaps[2] or seq)
    redis.call('HDEL', key, 'x' .. first, 'x' .. seq - 1, 'x' .. seq + 1, 'x' .. last)
  end
  if first <= head then
    head = last + 1
  elseif last >= tail - 1 then
    tail = first
  else
    redis.call('HSET', key, 'x' .. first, last, 'x' .. last, first)
  end
  waiting, requeued = waiting - 1, true
  left[attempt] = true
  return last + 1
end

local function leave(attempt)
  local seq = redis.call('HGET', key, 'a' .. attempt)
  if seq then remove(tonumber(seq), attempt) end
end

-- A server that is full refuses whatever may need memory, but not to a script that has written already. So nothing is changed here first by
-- whoever gives back what it has: that makes room.
local function although_full() redis.call('HDEL', key, '') end

local function is_there(claimant)
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', 'lwi:' .. claimant:sub(33, 48))
  return listeners.err or listeners[2] > 0
end

local function tell(claimant, words)
  push[#push + 1] = {'lwi:' .. claimant:sub(33, 48), table.concat(words, ' ')}
end

-- A claim was not renewed: its client loses all its places, and hears so.
local function drop_inbox(claimant)
  local before, inbox = waiting, claimant:sub(33, 48)
  local seq = head
  while seq < tail do
    local entry, behind = look_at(seq)
    if entry and entry:sub(33, 48) == inbox then behind = remove(seq, entry:sub(1, 32)) end
    seq = behind
  end
  if waiting < before then tell(claimant, {'dropped', key}) end
end

-- A hold that was no claim passed to somebody for one: the next, who may sleep until the end of that hold, looks when the claim is over.
-- Whoever listens to its channel does not learn its attempt before its turn.
local function tell_next()
  local entry = waiting > 0 and look_at(head)
  if entry then tell(entry, {'next', entry:sub(25, 32), key}) end
end

local function write()
  if requeued and waiting > 0 then
    set('w', waiting)
    set('h', head)
    set('n', tail)
  elseif requeued then
    redis.call('HDEL', key, 'w', 'h', 'n')
  end
  if #put > 0 then redis.call('HSET', key, unpack(put)) end
  if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  if looks then tell_next() end
  -- A user without the right to publish still releases: the next in the queue asks by its timer.
  for _, message in ipairs(push) do redis.pcall('PUBLISH', message[1], message[2]) end
end
