-- Rows in the order of their names, and the time.
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)), name, version, kind, record
FROM lockwright_locks
WHERE name > ? AND name >= ? AND name <= ?
  AND changed <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)) - ?
ORDER BY name LIMIT ?
