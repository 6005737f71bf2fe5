-- Takes the lock where its lease is over, if it is time, and tells how it is then.
WITH at AS (
  SELECT timezone('utc', clock) AS now, (extract(epoch FROM clock) * 1e6)::bigint AS us FROM clock_timestamp() AS clock
), taken AS (
  INSERT INTO shedlock AS kept (name, locked_by, lock_until, locked_at)
  SELECT $1::text, $2::text, now + $3::bigint * interval '1 microsecond', now
  FROM at WHERE us <= $4::bigint
  ON CONFLICT (name) DO UPDATE SET
    locked_by = excluded.locked_by,
    lock_until = greatest(kept.lock_until, excluded.lock_until),
    locked_at = CASE WHEN kept.locked_by = excluded.locked_by THEN kept.locked_at
      ELSE greatest(excluded.locked_at, kept.locked_at + interval '1 millisecond') END
  WHERE kept.lock_until <= (SELECT now FROM at) OR kept.locked_by = excluded.locked_by
  RETURNING locked_by, lock_until, locked_at
), kept AS (
  SELECT true AS is_taken, * FROM taken
  UNION ALL
  SELECT false, locked_by, lock_until, locked_at FROM shedlock
  WHERE name = $1::text AND NOT EXISTS (SELECT FROM taken)
)
SELECT us::text,
  CASE
    WHEN is_taken AND lock_until < now + ($3::bigint - 1000) * interval '1 microsecond' THEN '3'
    WHEN is_taken THEN '1'
    WHEN us > $4::bigint THEN '2'
    ELSE '0'
  END,
  locked_by::text,
  (extract(epoch FROM lock_until - now) * 1e6)::bigint::text,
  (extract(epoch FROM locked_at) * 1e6)::bigint::text
FROM at LEFT JOIN kept ON true
