-- Takes the lock from whoever has held it since then.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
UPDATE shedlock SET lock_until = TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND
WHERE name = ?1 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) = ?2
  AND lock_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND;
SET @freed = ROW_COUNT();
SELECT @now, @freed
