-- What somebody was told.
SELECT id, message FROM lockwright_told WHERE inbox = ? ORDER BY told, id
