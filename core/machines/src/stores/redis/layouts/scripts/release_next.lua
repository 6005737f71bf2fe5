if r:byte() == 81 and hand_on(ARGV[2]) then return 1 end
