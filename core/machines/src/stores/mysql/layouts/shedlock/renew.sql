-- Makes a lease last longer that is not over.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
UPDATE shedlock SET lock_until = GREATEST(lock_until, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL (@now + ?3) MICROSECOND)
WHERE name = ?1 AND locked_by = ?2 AND lock_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND;
SELECT @now, COUNT(*) FROM shedlock
WHERE name = ?1 AND locked_by = ?2
  AND lock_until >= TIMESTAMP'1970-01-01 00:00:00' + INTERVAL (@now + ?3 - 1000) MICROSECOND
