-- Ends those leases that are not over, each by itself, and tells how the rows were.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (key, owner, place)
), freed AS (
  UPDATE shedlock AS kept SET lock_until = now FROM at, asked
  WHERE kept.name = asked.key AND kept.locked_by = asked.owner AND kept.lock_until > now
  RETURNING place
)
SELECT us::text, CASE WHEN freed.place IS NULL THEN '0' ELSE '1' END,
  kept.locked_by::text,
  (extract(epoch FROM kept.lock_until - now) * 1e6)::bigint::text,
  (extract(epoch FROM kept.locked_at) * 1e6)::bigint::text
FROM at, asked LEFT JOIN freed USING (place) LEFT JOIN shedlock AS kept ON kept.name = asked.key
ORDER BY place
