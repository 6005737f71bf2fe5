-- What several may hold is none of this layout's locks.
if type(value) == 'string' and value:find(' of ') then return foreign() end
