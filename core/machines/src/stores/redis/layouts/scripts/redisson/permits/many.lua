local millis = math.floor(now / 1000)
local beside, leases
