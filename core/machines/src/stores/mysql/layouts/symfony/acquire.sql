-- Takes the lock where its lease is over, if it is time, and tells how it is then. Columns are written one after the
-- other, and whose it is last: what comes before depends on whose it was. Whoever gives back deletes the row, and what it
-- said of the last hold with it: so since when it is held is told once more when the row is ours alone. Symfony cuts the
-- time to whole seconds: its leases last for up to one second more than they say.
-- Whoever sees that somebody else holds it asks for no row, so that waiters neither block the holder nor each other. That is
-- looked up by SELECT, since MariaDB locks the rows that SET reads: two who had looked could not write, a deadlock.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now <= ?4 AND NOT EXISTS (SELECT 1 FROM lock_keys AS kept WHERE kept.key_id = SHA2(?1, 256)
  AND LEFT(kept.key_token, 32) <> ?2 AND (kept.key_expiration + 1) * 1000000 > @now) INTO @may;
SELECT COUNT(*) FROM lock_keys WHERE key_id = SHA2(?1, 256) AND LEFT(key_token, 32) = ?2 INTO @again;
UPDATE lock_keys SET
  key_expiration = GREATEST(key_expiration, CEIL((@now + ?3) / 1000000)),
  key_token = IF(LEFT(key_token, 32) = ?2, key_token, CONCAT(?2, LPAD(LOWER(HEX(@now >> 4)), 12, '0')))
WHERE @may AND key_id = SHA2(?1, 256)
  AND (LEFT(key_token, 32) = ?2 OR (key_expiration + 1) * 1000000 <= @now);
INSERT INTO lock_keys (key_id, key_token, key_expiration)
SELECT SHA2(?1, 256), CONCAT(?2, LPAD(LOWER(HEX(@now >> 4)), 12, '0')), CEIL((@now + ?3) / 1000000)
FROM (SELECT 1 AS one) AS one
WHERE @may AND NOT EXISTS (SELECT 1 FROM lock_keys AS kept WHERE kept.key_id = SHA2(?1, 256))
ON DUPLICATE KEY UPDATE lock_keys.key_id = lock_keys.key_id;
UPDATE lock_keys SET key_token = CONCAT(?2,
  LPAD(LOWER(HEX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >> 4)), 12, '0'))
WHERE @may AND @again = 0 AND key_id = SHA2(?1, 256) AND LEFT(key_token, 32) = ?2;
SELECT @now,
  CASE
    WHEN @now > ?4 THEN 2
    WHEN kept.key_token IS NULL OR LEFT(kept.key_token, 32) <> ?2 THEN 0
    ELSE 1
  END,
  kept.key_token,
  (CAST(kept.key_expiration AS SIGNED) + 1) * 1000000 - @now,
  IF(kept.key_token REGEXP '^[0-9a-f]{44}$', CONV(RIGHT(kept.key_token, 12), 16, 10) << 4, NULL)
FROM (SELECT 1 AS one) AS one LEFT JOIN lock_keys AS kept ON kept.key_id = SHA2(?1, 256)
