-- Makes those leases last longer that are not over, each by itself.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS asked (key, owner, ttl, place)
), renewed AS (
  UPDATE shedlock AS kept SET lock_until = greatest(kept.lock_until, now + asked.ttl * interval '1 microsecond')
  FROM at, asked
  WHERE kept.name = asked.key AND kept.locked_by = asked.owner AND kept.lock_until > now
  RETURNING place
)
SELECT us::text, CASE WHEN renewed.place IS NULL THEN '0' ELSE '1' END
FROM at, asked LEFT JOIN renewed USING (place) ORDER BY place
