local found = release(ARGV[1]:sub(1, 32))
if found == 1 then finish() end
return found
