-- Tells how it is.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
)
SELECT us::text, '0',
  kept.locked_by::text,
  (extract(epoch FROM kept.lock_until - now) * 1e6)::bigint::text,
  (extract(epoch FROM kept.locked_at) * 1e6)::bigint::text
FROM at LEFT JOIN shedlock AS kept ON kept.name = $1::text
