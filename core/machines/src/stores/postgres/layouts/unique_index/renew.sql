-- Makes those leases last longer that are not over, each by itself.
WITH at AS (
  SELECT us, lpad(us::text, 16, '0') AS now
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock) AS read
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS asked (key, owner, ttl, place)
), renewed AS (
  UPDATE lock AS kept SET "desc" = concat_ws(' ', left(kept."desc", 16),
    greatest(substr(kept."desc", 18, 16), lpad((us + asked.ttl)::text, 16, '0') COLLATE "C"), asked.owner)
  FROM at, asked
  WHERE kept.lock_name = asked.key AND substr(kept."desc", 35) = asked.owner
    AND substr(kept."desc", 18, 16) COLLATE "C" > now
  RETURNING place
)
SELECT us::text, CASE WHEN renewed.place IS NULL THEN '0' ELSE '1' END
FROM at, asked LEFT JOIN renewed USING (place) ORDER BY place
