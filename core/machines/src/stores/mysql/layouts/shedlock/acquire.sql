-- Takes the lock where its lease is over, if it is time, and tells how it is then. Columns are written one after the
-- other, and whose it is last: what comes before depends on whose it was.
-- Whoever sees that somebody else holds it asks for no row, so that waiters neither block the holder nor each other. That is
-- looked up by SELECT, since MariaDB locks the rows that SET reads: two who had looked could not write, a deadlock.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now <= ?4 AND NOT EXISTS (SELECT 1 FROM shedlock AS kept WHERE kept.name = ?1 AND kept.locked_by <> ?2
  AND kept.lock_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND) INTO @may;
UPDATE shedlock SET
  locked_at = IF(locked_by = ?2, locked_at,
    GREATEST(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND, locked_at + INTERVAL 1000 MICROSECOND)),
  lock_until = GREATEST(lock_until, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL (@now + ?3) MICROSECOND),
  locked_by = ?2
WHERE @may AND name = ?1
  AND (locked_by = ?2 OR lock_until <= TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND);
INSERT INTO shedlock (name, locked_by, lock_until, locked_at)
SELECT ?1, ?2,
  TIMESTAMP'1970-01-01 00:00:00' + INTERVAL (@now + ?3) MICROSECOND,
  TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND
FROM (SELECT 1 AS one) AS one
WHERE @may AND NOT EXISTS (SELECT 1 FROM shedlock AS kept WHERE kept.name = ?1)
ON DUPLICATE KEY UPDATE shedlock.name = shedlock.name;
SELECT @now,
  CASE
    WHEN @now > ?4 THEN 2
    WHEN kept.locked_by IS NULL OR kept.locked_by <> ?2 THEN 0
    WHEN kept.lock_until < TIMESTAMP'1970-01-01 00:00:00' + INTERVAL (@now + ?3 - 1000) MICROSECOND THEN 3
    ELSE 1
  END,
  kept.locked_by,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.lock_until) - @now,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.locked_at)
FROM (SELECT 1 AS one) AS one LEFT JOIN shedlock AS kept ON kept.name = ?1
