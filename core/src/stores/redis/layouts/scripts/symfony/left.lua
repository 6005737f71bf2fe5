local function left() return ends - now_ms end
