-- Rows in the order of their keys, and the time.
SELECT key, version, kind, record, clock_timestamp()
FROM lockwright_locks
WHERE key > $1::text AND key >= $2::text AND key <= $3::text
  AND changed <= clock_timestamp() - $4::bigint * interval '1 microsecond'
ORDER BY key LIMIT $5::bigint
