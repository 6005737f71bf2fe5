if not r then return false end
local waiting, queue, line = all_waiting(), {}, next_line()
while line and #queue < 100 do
  local entry, behind = look_at(line, line.head)
  if entry then queue[#queue + 1] = {now - entry:sub(57, 72), tonumber(line.mark:match('%d') or 0), entry:sub(73)} end
  -- Only a seat that is taken can be the next; behind the last one there is nobody.
  local next_entry
  while not next_entry and behind < line.tail do
    line.head = behind
    next_entry, behind = look_at(line, behind)
  end
  if not next_entry then line.waiting = 0 end
  line = next_line()
end
local first = tonumber(r:sub(2, 17))
if owner == '' then return {'lock', '', 0, 0, first, first, '', waiting, queue} end
return {'lock', owner, math.max(now - first, 0), math.max(expires - now, 0), first, first + 63, owner_card, waiting, queue}
