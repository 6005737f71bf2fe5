-- Notes a hold, of so many milliseconds, under a new token.
local function note(owner, units, card, ttl)
  local top = tonumber(redis.call('HGET', beside, 't') or 0)
  local token, text = now, now_text
  if top >= now then
    token = top + 1
    text = ('%.0f'):format(token)
  end
  redis.call('HSET', beside, 't', text, owner, text .. ' ' .. now_text .. ' ' .. units .. ' ' .. card)
  keep_notes(ttl)
  return token
end
