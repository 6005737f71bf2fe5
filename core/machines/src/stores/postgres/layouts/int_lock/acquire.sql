-- Takes the lock where its lease is over, if it is time, and tells how it is then. Whoever gives back deletes the row,
-- and what it said of the last hold with it: so those who take it have turns, and each tells the time in its own.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtext('INT_LOCK'), hashtext($1::text))
), read AS MATERIALIZED (
  SELECT clock_timestamp() AS clock FROM turn
), at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM read
), taken AS (
  INSERT INTO int_lock AS kept (region, lock_key, client_id, expired_after, created_date)
  SELECT 'DEFAULT', $1::text::bpchar, $2::text::bpchar, now + $3::bigint * interval '1 microsecond', now
  FROM at WHERE us <= $4::bigint
  ON CONFLICT (region, lock_key) DO UPDATE SET
    client_id = excluded.client_id,
    expired_after = greatest(kept.expired_after, excluded.expired_after),
    created_date = CASE WHEN kept.client_id = excluded.client_id THEN kept.created_date
      WHEN substr(kept.client_id, 15, 1) = '8' THEN greatest(excluded.created_date, kept.created_date + interval '1 millisecond')
      ELSE excluded.created_date END
  WHERE kept.expired_after < (SELECT now FROM at) OR kept.client_id = excluded.client_id
  RETURNING client_id, expired_after, created_date
), kept AS (
  SELECT true AS is_taken, * FROM taken
  UNION ALL
  SELECT false, client_id, expired_after, created_date FROM int_lock
  WHERE region = 'DEFAULT' AND lock_key = $1::text::bpchar AND NOT EXISTS (SELECT FROM taken)
)
SELECT us::text,
  CASE
    WHEN is_taken AND expired_after < now + ($3::bigint - 1000) * interval '1 microsecond' THEN '3'
    WHEN is_taken THEN '1'
    WHEN us > $4::bigint THEN '2'
    ELSE '0'
  END,
  client_id::text,
  (extract(epoch FROM expired_after - now) * 1e6)::bigint::text,
  (extract(epoch FROM created_date) * 1e6)::bigint::text
FROM at LEFT JOIN kept ON true
