-- Takes the lock from whoever has held it since then.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
DELETE FROM lock_keys
WHERE key_id = SHA2(?1, 256) AND key_token REGEXP '^[0-9a-f]{44}$' AND RIGHT(key_token, 12) = LPAD(LOWER(HEX(?2 >> 4)), 12, '0')
  AND (key_expiration + 1) * 1000000 > @now;
SET @freed = ROW_COUNT();
SELECT @now, @freed
