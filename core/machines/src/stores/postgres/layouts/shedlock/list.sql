-- The names of locks that are held and begin so, in their order, behind one of them.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
)
SELECT us::text, name::text
FROM at, shedlock
WHERE lock_until > now AND left(name, length($1::text)) = $1::text AND name::text COLLATE "C" > $2::text
ORDER BY name::text COLLATE "C" LIMIT 500
