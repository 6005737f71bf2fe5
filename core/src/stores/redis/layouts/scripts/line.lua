-- Those who wait for what a record is about, and the end of a script that changed it. Changes gather in `put` and are written in one
-- command; only what leaves the queue is deleted at once, since a later step may look for it.
local put, push, left, requeued, goes = {}, {}, {}, false, nil

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

local function drop_inbox(inbox)
  for seq = head, tail - 1 do
    local entry = redis.call('HGET', key, 'q' .. seq)
    if entry and entry:sub(33, 48) == inbox then remove(seq, entry:sub(1, 32)) end
  end
end

local function is_there(claimant)
  local listeners = redis.pcall('PUBSUB', 'NUMSUB', 'lwi:' .. claimant:sub(33, 48))
  return listeners.err or listeners[2] > 0
end

local function tell(claimant, words)
  push[#push + 1] = {'lwi:' .. claimant:sub(33, 48), table.concat(words, ' ')}
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
  -- A user without the right to publish still releases: the next in the queue asks by its timer.
  for _, message in ipairs(push) do redis.pcall('PUBLISH', message[1], message[2]) end
end
