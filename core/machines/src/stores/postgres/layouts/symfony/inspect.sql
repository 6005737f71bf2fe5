-- Tells how it is.
WITH at AS (
  SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
)
SELECT us::text, '0',
  kept.key_token::text,
  (((kept.key_expiration + 0.5) * 1e6)::bigint - us)::text,
  CASE WHEN kept.key_token ~ '^[0-9a-f]{44}$' THEN (('x0000' || right(kept.key_token, 12))::bit(64)::bigint << 4)::text END
FROM at LEFT JOIN lock_keys AS kept ON kept.key_id = encode(sha256(convert_to($1::text, 'UTF8')), 'hex')
