-- Those who wait for what a record is about, and the end of a script that changed it. Changes gather in `put` and are written in one
-- command; only what leaves the queue is deleted at once, since a later step may look for it.
local put, push, left, requeued, goes, looks = {}, {}, {}, false, nil, false

local function set(field, value)
  put[#put + 1] = field
  put[#put + 1] = value
end

-- Who has a seat in a line, and which seat comes next. Behind one that somebody left comes the end of the whole gap.
local function look_at(line, seq)
  local found = redis.call('HMGET', key, 'q' .. line.mark .. seq, 'x' .. line.mark .. seq)
  return found[1], (not found[1] and found[2] or seq) + 1
end

-- Takes somebody off a seat; which seat comes next. A gap in a line's middle is noted at its first and its last seat, each of which
-- names the other, so that nobody ever walks through it; a line begins and ends with a seat that is taken.
local function remove(line, seq, attempt)
  local first, last, gap = seq, seq, 'x' .. line.mark
  redis.call('HDEL', key, 'q' .. line.mark .. seq, 'a' .. attempt)
  if line.tail - line.head > line.waiting then
    local gaps = redis.call('HMGET', key, gap .. seq - 1, gap .. seq + 1)
    first, last = tonumber(gaps[1] or seq), tonumber(gaps[2] or seq)
    redis.call('HDEL', key, gap .. first, gap .. seq - 1, gap .. seq + 1, gap .. last)
  end
  if first <= line.head then
    line.head = last + 1
  elseif last >= line.tail - 1 then
    line.tail = first
  else
    redis.call('HSET', key, gap .. first, last, gap .. last, first)
  end
  line.waiting, requeued = line.waiting - 1, true
  left[attempt] = true
  return last + 1
end

-- The line that a seat is in, and its number there.
local function seat_at(seat)
  local rank, seq = seat:match('^(%d)%.(%d+)$')
  return lines[tonumber(rank or 0)], tonumber(seq or seat)
end

local function leave(attempt)
  local seat = redis.call('HGET', key, 'a' .. attempt)
  if not seat then return end
  local line, seq = seat_at(seat)
  remove(line, seq, attempt)
end

-- The line whose first is served next: of the first of each rank the one that has waited longest, where every 10 s count as a rank.
local function next_line()
  if not ranked then return lines[0].waiting > 0 and lines[0] end
  local best, least
  for rank = 9, 0, -1 do
    local line = lines[rank]
    if line and line.waiting > 0 then
      local turn = look_at(line, line.head):sub(57, 72) - rank * 10000000
      if not least or turn < least then best, least = line, turn end
    end
  end
  return best
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
  local inbox, any = claimant:sub(33, 48), false
  for _, line in pairs(lines) do
    local seq = line.head
    while seq < line.tail do
      local entry, behind = look_at(line, seq)
      if entry and entry:sub(33, 48) == inbox then
        behind, any = remove(line, seq, entry:sub(1, 32)), true
      end
      seq = behind
    end
  end
  if any then tell(claimant, {'dropped', key}) end
end

-- A hold that was no claim passed to somebody for one: the next, who may sleep until the end of that hold, looks when the claim is over.
-- Whoever listens to its channel does not learn its attempt before its turn.
local function tell_next()
  local line = next_line()
  local entry = line and look_at(line, line.head)
  if entry then tell(entry, {'next', entry:sub(25, 32), key}) end
end

local function write()
  if #put > 0 then redis.call('HSET', key, unpack(put)) end
  if goes then redis.call('PEXPIREAT', key, math.ceil(goes / 1000)) end
  if looks then tell_next() end
  -- A user without the right to publish still releases: the next in the queue asks by its timer.
  for _, message in ipairs(push) do redis.pcall('PUBLISH', message[1], message[2]) end
end
