-- Makes a lease last longer that is not over for anybody.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
UPDATE lock_keys SET key_expiration = GREATEST(key_expiration, CEIL((@now + ?3) / 1000000))
WHERE key_id = SHA2(?1, 256) AND LEFT(key_token, 32) = ?2 AND key_expiration * 1000000 > @now;
SELECT @now, COUNT(*) FROM lock_keys
WHERE key_id = SHA2(?1, 256) AND LEFT(key_token, 32) = ?2 AND key_expiration * 1000000 >= @now + ?3
