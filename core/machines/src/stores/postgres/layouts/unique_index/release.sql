-- Deletes the rows, each by itself, and tells which leases were not over, and how the other rows are.
WITH at AS (
  SELECT us, lpad(us::text, 16, '0') AS now
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock) AS read
), asked AS (
  SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (key, owner, place)
), freed AS (
  DELETE FROM lock AS kept USING at, asked
  WHERE kept.lock_name = asked.key AND substr(kept."desc", 35) = asked.owner
  RETURNING place, substr(kept."desc", 18, 16) COLLATE "C" > now AS was_held
)
SELECT us::text, CASE WHEN was_held THEN '1' ELSE '0' END,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 35) ELSE kept."desc" END,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 18, 16)::bigint - us WHEN kept."desc" IS NOT NULL THEN 9223372036854775807 END::text,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN left(kept."desc", 16)::bigint END::text
FROM at, asked LEFT JOIN freed USING (place)
  LEFT JOIN lock AS kept ON kept.lock_name = asked.key AND freed.place IS NULL
ORDER BY place
