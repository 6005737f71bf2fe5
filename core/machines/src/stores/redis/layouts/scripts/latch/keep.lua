-- Writes the record, which stays for as long as any of its users said since it was last used.
local function keep(idle)
  local goes = math.max(tonumber(h[3] or 0), now + idle)
  redis.call('HSET', key, 'v', kind, 'c', count, 'g', ('%.0f'):format(goes))
  redis.call('PEXPIREAT', key, math.ceil(goes / 1000))
end
