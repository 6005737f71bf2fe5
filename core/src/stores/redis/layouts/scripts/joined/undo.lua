for _, owner in ipairs(ARGV) do
  if holder == owner then free() end
end
return 1
