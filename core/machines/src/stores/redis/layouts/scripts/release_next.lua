if h[4] and hand_on(ARGV[2]) then return 1 end
