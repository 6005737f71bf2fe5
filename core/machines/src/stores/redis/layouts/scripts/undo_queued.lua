if r then although_full() end
for _, claimant in ipairs(ARGV) do
  if claimant ~= '' then
    leave(claimant:sub(1, 32))
    if owner == claimant then
      free(last)
      hand_over()
    end
  end
end
if r then finish() end
return 1
