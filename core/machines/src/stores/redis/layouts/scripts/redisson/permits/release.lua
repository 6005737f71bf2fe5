return free(ARGV[1], tonumber(ARGV[2])) and 1 or 0
