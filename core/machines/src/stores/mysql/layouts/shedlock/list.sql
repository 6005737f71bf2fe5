-- The names of locks that are held and begin so, in their order, behind one of them.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now, name FROM shedlock
WHERE lock_until > TIMESTAMP'1970-01-01 00:00:00' + INTERVAL @now MICROSECOND
  AND LEFT(name, CHAR_LENGTH(?1)) = ?1 AND name > ?2
ORDER BY name LIMIT 500
