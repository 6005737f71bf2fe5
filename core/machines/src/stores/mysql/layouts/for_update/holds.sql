-- Says that the holder lives, for so many milliseconds.
SET SESSION wait_timeout = ?2 DIV 1000 + 1;
SELECT 1
