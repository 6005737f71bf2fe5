-- Tells how it is.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now, 0,
  kept.key_token,
  (CAST(kept.key_expiration AS SIGNED) + 1) * 1000000 - @now,
  IF(kept.key_token REGEXP '^[0-9a-f]{44}$', CONV(RIGHT(kept.key_token, 12), 16, 10) << 4, NULL)
FROM (SELECT 1 AS one) AS one LEFT JOIN lock_keys AS kept ON kept.key_id = SHA2(?1, 256)
