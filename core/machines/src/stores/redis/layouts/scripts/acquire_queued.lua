if owner == asker then
  go_on(asker, card, ttl)
  finish()
  return prev == '' and last - 63 or {3, last - 63, 3}
end

local given = 0
if prev ~= '' then
  if owner == prev then
    free(tonumber(ARGV[7]))
  elseif seat then
    given = 3
  else
    given = owner == '' and 1 or 2
  end
end
if owner ~= '' and expires <= now then
  -- It did not even renew its claim: its other waiters would each cost another one.
  if claimed then drop_inbox(owner) end
  owner = ''
end

local rank = ARGV[5] - 1
-- Among those who have ranks the asker may be the first.
if owner == '' and waits and (ranked or rank > 0) and all_waiting() > 0 then join(asker, card, rank) end
if owner == '' then hand_over(asker, ttl) end
if owner == '' then grant(asker, card, ttl) end
if owner == asker then
  finish()
  return given == 0 and last - 63 or {3, last - 63, given}
end
local position = waits and join(asker, card, rank)
finish()
local remaining = math.max(expires - now, 0)
if waits then return {1, now, remaining, position, given} end
return {0, now, remaining, given}
