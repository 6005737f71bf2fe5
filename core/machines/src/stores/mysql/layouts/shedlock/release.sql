-- Ends the lease, if it is not over, and tells how the row is then.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
UPDATE shedlock SET lock_until = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND
WHERE name = ?1 AND locked_by = ?2 AND lock_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND;
SET @freed = ROW_COUNT();
SELECT @now, @freed,
  kept.locked_by,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.lock_until) - @now,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.locked_at)
FROM (SELECT 1 AS one) AS one LEFT JOIN shedlock AS kept ON kept.name = ?1
