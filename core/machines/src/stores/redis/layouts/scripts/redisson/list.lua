-- Our records, of locks and of what several may hold.
local kind, pattern = nil, ((ARGV[2] or KEYS[1]):gsub('^lwt:', 'lw[ts]:'))
