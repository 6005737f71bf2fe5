local function left()
  return holder:find('^%d+%.?%d*$') and math.floor((ends() - now) / 1000) or -1
end
