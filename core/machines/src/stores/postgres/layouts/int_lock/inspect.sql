-- Tells how it is.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
)
SELECT us::text, '0',
  kept.client_id::text,
  (extract(epoch FROM kept.expired_after - now) * 1e6)::bigint::text,
  (extract(epoch FROM kept.created_date) * 1e6)::bigint::text
FROM at LEFT JOIN int_lock AS kept ON kept.region = 'DEFAULT' AND kept.lock_key = $1::text::bpchar
