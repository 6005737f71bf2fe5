-- Our records, of locks and of what several may hold.
local kind, pattern = nil, (KEYS[1]:gsub('^lwt:', 'lw[ts]:'))
