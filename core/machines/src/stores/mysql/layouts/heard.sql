-- Takes away what was heard.
DELETE FROM lockwright_told WHERE inbox = ? AND id IN (?)
