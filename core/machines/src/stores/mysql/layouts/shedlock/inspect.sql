-- Tells how it is.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now, 0,
  kept.locked_by,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.lock_until) - @now,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', kept.locked_at)
FROM (SELECT 1 AS one) AS one LEFT JOIN shedlock AS kept ON kept.name = ?1
