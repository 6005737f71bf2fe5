-- Ends those leases that are not over, each by itself, and tells how the rows were.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (key, owner, place)
), freed AS (
  DELETE FROM int_lock AS kept USING at, asked
  WHERE kept.region = 'DEFAULT' AND kept.lock_key = asked.key::bpchar
    AND kept.client_id = asked.owner::bpchar AND kept.expired_after > now
  RETURNING place
)
SELECT us::text, CASE WHEN freed.place IS NULL THEN '0' ELSE '1' END,
  kept.client_id::text,
  (extract(epoch FROM kept.expired_after - now) * 1e6)::bigint::text,
  (extract(epoch FROM kept.created_date) * 1e6)::bigint::text
FROM at, asked LEFT JOIN freed USING (place)
  LEFT JOIN int_lock AS kept ON kept.region = 'DEFAULT' AND kept.lock_key = asked.key::bpchar
ORDER BY place
