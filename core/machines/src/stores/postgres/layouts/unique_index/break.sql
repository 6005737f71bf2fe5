-- Takes the lock from whoever of ours has held it since then.
WITH at AS (
  SELECT us, lpad(us::text, 16, '0') AS now
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock) AS read
), freed AS (
  DELETE FROM lock AS kept USING at
  WHERE kept.lock_name = $1::text AND kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t'
    AND left(kept."desc", 16) = lpad($2::bigint::text, 16, '0') AND substr(kept."desc", 18, 16) COLLATE "C" > now
  RETURNING now
)
SELECT us::text, (SELECT count(*) FROM freed)::text FROM at
