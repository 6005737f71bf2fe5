-- Makes those leases last longer that are not over for anybody, each by itself.
WITH at AS (
  SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS asked (key, owner, ttl, place)
), renewed AS (
  UPDATE lock_keys AS kept
  SET key_expiration = greatest(kept.key_expiration, ceil((us + asked.ttl) / 1e6 + 0.5)::integer)
  FROM at, asked
  WHERE kept.key_id = encode(sha256(convert_to(asked.key, 'UTF8')), 'hex') AND left(kept.key_token, 32) = asked.owner
    AND kept.key_expiration - 0.5 > us / 1e6
  RETURNING place
)
SELECT us::text, CASE WHEN renewed.place IS NULL THEN '0' ELSE '1' END
FROM at, asked LEFT JOIN renewed USING (place) ORDER BY place
