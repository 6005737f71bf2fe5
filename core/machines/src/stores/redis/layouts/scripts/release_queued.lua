although_full()
free(tonumber(ARGV[2]))
hand_over()
finish()
return 1
