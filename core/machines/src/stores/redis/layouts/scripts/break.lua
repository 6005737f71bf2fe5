local token = tonumber(ARGV[1])
if owner == '' or token > last or token < last - 63 then return 0 end
although_full()
tell(owner, {'broken', owner:sub(1, 32), key})
owner = ''
hand_over()
finish()
return 1
