-- What several may hold is none of this layout's locks.
if type(value) == 'string' and value:find('^%a+ of ') then return foreign() end
