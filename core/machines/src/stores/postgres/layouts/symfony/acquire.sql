-- Takes the lock where its lease is over, if it is time, and tells how it is then. Whoever gives back deletes the row,
-- and what it said of the last hold with it: so those who take it have turns, and each tells the time in its own.
-- Symfony rounds the time to whole seconds: its leases last for half a second more than they say, and may end as much
-- earlier for others.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtext('lock_keys'), hashtext($1::text))
), read AS MATERIALIZED (
  SELECT clock_timestamp() AS clock FROM turn
), at AS (
  SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us, encode(sha256(convert_to($1::text, 'UTF8')), 'hex') AS id FROM read
), taken AS (
  INSERT INTO lock_keys AS kept (key_id, key_token, key_expiration)
  SELECT id, $2::text || lpad(to_hex(us >> 4), 12, '0'), ceil((us + $3::bigint) / 1e6 + 0.5)::integer
  FROM at WHERE us <= $4::bigint
  ON CONFLICT (key_id) DO UPDATE SET
    key_token = CASE WHEN left(kept.key_token, 32) = $2::text THEN kept.key_token ELSE excluded.key_token END,
    key_expiration = greatest(kept.key_expiration, excluded.key_expiration)
  WHERE left(kept.key_token, 32) = $2::text OR kept.key_expiration + 0.5 <= (SELECT us FROM at) / 1e6
  RETURNING key_token, key_expiration
), kept AS (
  SELECT true AS is_taken, * FROM taken
  UNION ALL
  SELECT false, key_token, key_expiration FROM lock_keys
  WHERE key_id = (SELECT id FROM at) AND NOT EXISTS (SELECT FROM taken)
)
SELECT us::text,
  CASE WHEN is_taken THEN '1' WHEN us > $4::bigint THEN '2' ELSE '0' END,
  key_token::text,
  (((key_expiration + 0.5) * 1e6)::bigint - us)::text,
  CASE WHEN key_token ~ '^[0-9a-f]{44}$' THEN (('x0000' || right(key_token, 12))::bit(64)::bigint << 4)::text END
FROM at LEFT JOIN kept ON true
