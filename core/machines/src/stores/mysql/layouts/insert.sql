-- Writes a row where there is none, if it is time. Somebody else's that was written at the same moment stays as it is.
INSERT INTO lockwright_locks (name, version, kind, record, changed)
SELECT ?, ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6))
FROM (SELECT 1 AS one) AS one
WHERE TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)) BETWEEN ? AND ?
  AND NOT EXISTS (SELECT 1 FROM lockwright_locks AS kept WHERE kept.name = ?)
ON DUPLICATE KEY UPDATE lockwright_locks.version = lockwright_locks.version
