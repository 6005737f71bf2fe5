-- Takes the lock from whoever has held it since then.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), freed AS (
  DELETE FROM int_lock USING at
  WHERE region = 'DEFAULT' AND lock_key = $1::text::bpchar
    AND (extract(epoch FROM created_date) * 1e6)::bigint = $2::bigint AND expired_after > now
  RETURNING now
)
SELECT us::text, (SELECT count(*) FROM freed)::text FROM at
