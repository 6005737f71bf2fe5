-- Writes a row that is as expected, if it is time. Times are microseconds since 1970: sessions of ours have the time zone UTC.
UPDATE lockwright_locks
SET version = ?, kind = ?, record = ?, changed = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))
WHERE name = ? AND version = ?
  AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) BETWEEN ? AND ?
