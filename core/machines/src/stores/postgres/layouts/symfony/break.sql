-- Takes the lock from whoever has held it since then.
WITH at AS (
  SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), freed AS (
  DELETE FROM lock_keys USING at
  WHERE key_id = encode(sha256(convert_to($1::text, 'UTF8')), 'hex')
    AND key_token ~ '^[0-9a-f]{44}$' AND right(key_token, 12) = lpad(to_hex($2::bigint >> 4), 12, '0')
    AND key_expiration + 0.5 > us / 1e6
  RETURNING us
)
SELECT us::text, (SELECT count(*) FROM freed)::text FROM at
