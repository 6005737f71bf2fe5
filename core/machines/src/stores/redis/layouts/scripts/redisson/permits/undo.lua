free(ARGV[1], tonumber(ARGV[2]))
return 1
