if value == ARGV[1] then free() end
return 1
