if h[1] then although_full() end
for _, claimant in ipairs(ARGV) do
  if claimant ~= '' then
    leave(claimant:sub(1, 32))
    if owner == claimant then
      free(last)
      hand_over()
    end
  end
end
if h[1] then finish() end
return 1
