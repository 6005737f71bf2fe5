-- Writes a row that is as expected, if it is time, and says when that was as the number that an answer without rows
-- has. Times are microseconds since 1970: sessions of ours have the time zone UTC.
UPDATE lockwright_locks
SET version = ?, kind = ?, record = ?,
  changed = LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)))
WHERE name = ? AND version = ?
  AND TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)) BETWEEN ? AND ?
