-- Tells how it is.
WITH at AS (
  SELECT us, lpad(us::text, 16, '0') AS now
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock) AS read
)
SELECT us::text, '0',
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 35) ELSE kept."desc" END,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 18, 16)::bigint - us WHEN kept."desc" IS NOT NULL THEN 9223372036854775807 END::text,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN left(kept."desc", 16)::bigint END::text
FROM at LEFT JOIN lock AS kept ON kept.lock_name = $1::text
