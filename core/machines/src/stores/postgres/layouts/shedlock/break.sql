-- Takes the lock from whoever has held it since then.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), freed AS (
  UPDATE shedlock SET lock_until = now FROM at
  WHERE name = $1::text AND (extract(epoch FROM locked_at) * 1e6)::bigint = $2::bigint AND lock_until > now
  RETURNING now
)
SELECT us::text, (SELECT count(*) FROM freed)::text FROM at
