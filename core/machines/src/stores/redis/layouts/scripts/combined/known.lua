-- Nothing lies here: the caller asks alone. A proxy that finds the server by the first key of a script may have this key on another one,
-- where somebody holds it.
if not r then return end
