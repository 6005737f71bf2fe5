-- Ends those leases that are not over, each by itself, and tells how the rows were.
WITH at AS (
  SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), asked AS (
  SELECT encode(sha256(convert_to(key, 'UTF8')), 'hex') AS id, owner, place
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (key, owner, place)
), freed AS (
  DELETE FROM lock_keys AS kept USING at, asked
  WHERE kept.key_id = asked.id AND left(kept.key_token, 32) = asked.owner AND kept.key_expiration - 0.5 > us / 1e6
  RETURNING place
)
SELECT us::text, CASE WHEN freed.place IS NULL THEN '0' ELSE '1' END,
  kept.key_token::text,
  CASE WHEN left(kept.key_token, 32) = asked.owner THEN '0' ELSE (((kept.key_expiration + 0.5) * 1e6)::bigint - us)::text END,
  '0'
FROM at, asked LEFT JOIN freed USING (place) LEFT JOIN lock_keys AS kept ON kept.key_id = asked.id
ORDER BY place
