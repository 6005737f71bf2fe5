-- The names of locks that are held and begin so, in their order, behind one of them.
WITH at AS (
  SELECT us, lpad(us::text, 16, '0') AS now
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock) AS read
)
SELECT us::text, lock_name::text
FROM at, lock AS kept
WHERE NOT (kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' AND substr(kept."desc", 18, 16) COLLATE "C" <= now)
  AND left(lock_name, length($1::text)) = $1::text AND lock_name::text COLLATE "C" > $2::text
ORDER BY lock_name::text COLLATE "C" LIMIT 500
