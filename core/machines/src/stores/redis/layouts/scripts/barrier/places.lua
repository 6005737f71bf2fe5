-- How a party passed that is noted as having done so, as it is answered.
local function passed(noted)
  local index, generation = noted:match('^%d+ (%d+) (%d+)$')
  return index and {3, tonumber(index), tonumber(generation)}
end

local function place(text)
  local inbox, ends, order, memory = text:match('^(%x+) (%d+) (%d+) (%d+)$')
  return { inbox = inbox, ends = tonumber(ends), order = tonumber(order), memory = tonumber(memory) }
end

-- Those whose places stand, and the others.
local function places()
  local standing, over = {}, {}
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local attempt = all[i]:match('^w(%x+)$')
    if attempt then
      local found = place(all[i + 1])
      found.attempt = attempt
      table.insert(found.ends > now and standing or over, found)
    end
  end
  return standing, over
end
