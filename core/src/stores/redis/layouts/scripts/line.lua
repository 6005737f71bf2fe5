-- Those who wait for what a record is about, and the end of a script that changed it. Changes gather in `put` and are written in one
-- command; only what leaves the queue is deleted at once, since a later step may look for it.
local put, push, left, requeued, goes, looks = {}, {}, {}, false, nil, false

local function set(field, value)
  put[#put + 1] = field
  put[#put + 1] = value
end

local function remove(seq, attempt)
  redis.call('HDEL', key, 'q' .. seq, 'a' .. attempt)
  waiting, requeued = waiting - 1, true
  left[attempt] = true
end

local function leave(attempt)
  local seq = redis.call('HGET', key, 'a' .. attempt)
  if seq then remove(seq, attempt) end
end

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
  for seq = head, tail - 1 do
    local entry = redis.call('HGET', key, 'q' .. seq)
    if entry and entry:sub(33, 48) == inbox then remove(seq, entry:sub(1, 32)) end
  end
  if waiting < before then tell(claimant, {'dropped', claimant:sub(1, 32), key}) end
end

-- A hold that was no claim passed to somebody for one: the next, who may sleep until the end of that hold, looks when the claim is over.
local function tell_next()
  if waiting == 0 then return end
  for seq = head, tail - 1 do
    local entry = redis.call('HGET', key, 'q' .. seq)
    if entry then return tell(entry, {'next', entry:sub(1, 32), key}) end
  end
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
