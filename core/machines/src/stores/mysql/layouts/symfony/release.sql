-- Ends the lease, if it is not over, and tells how the row is then.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
DELETE FROM lock_keys WHERE key_id = SHA2(?1, 256) AND LEFT(key_token, 32) = ?2 AND key_expiration * 1000000 > @now;
SET @freed = ROW_COUNT();
SELECT @now, @freed,
  kept.key_token,
  IF(LEFT(kept.key_token, 32) = ?2, 0, (CAST(kept.key_expiration AS SIGNED) + 1) * 1000000 - @now),
  0
FROM (SELECT 1 AS one) AS one LEFT JOIN lock_keys AS kept ON kept.key_id = SHA2(?1, 256)
