-- Takes the lock where no row says that it is held, if it is time, and tells how it is then. Whoever gives back deletes
-- the row, and what it said of the last hold with it: so those who take it have turns, and each tells the time in its
-- own. Times are texts of one length, in their order: a row may hold any text.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtext('lock'), hashtext($1::text))
), read AS MATERIALIZED (
  SELECT clock_timestamp() AS clock FROM turn
), at AS (
  SELECT us, lpad(us::text, 16, '0') AS now, lpad((us + $3::bigint)::text, 16, '0') AS until
  FROM (SELECT (extract(epoch FROM clock) * 1e6)::bigint AS us FROM read) AS read
), taken AS (
  INSERT INTO lock AS kept (lock_name, "desc")
  SELECT $1::text, concat_ws(' ', now, until, $2::text) FROM at WHERE us <= $4::bigint
  ON CONFLICT (lock_name) DO UPDATE SET
    update_time = excluded.update_time,
    "desc" = CASE WHEN substr(kept."desc", 35) = $2::text
      THEN concat_ws(' ', left(kept."desc", 16), greatest(substr(kept."desc", 18, 16), substr(excluded."desc", 18, 16)), $2::text)
      ELSE excluded."desc" END
  WHERE substr(kept."desc", 35) = $2::text
    OR (kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' AND substr(kept."desc", 18, 16) COLLATE "C" <= (SELECT now FROM at))
  RETURNING "desc"
), kept AS (
  SELECT true AS is_taken, "desc" FROM taken
  UNION ALL
  SELECT false, "desc" FROM lock WHERE lock_name = $1::text AND NOT EXISTS (SELECT FROM taken)
)
SELECT us::text,
  CASE WHEN is_taken THEN '1' WHEN us > $4::bigint THEN '2' ELSE '0' END,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 35) ELSE kept."desc" END,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN substr(kept."desc", 18, 16)::bigint - us WHEN kept."desc" IS NOT NULL THEN 9223372036854775807 END::text,
  CASE WHEN kept."desc" ~ '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN left(kept."desc", 16)::bigint END::text
FROM at LEFT JOIN kept ON true
