-- Writes a row that is as expected, if it is time, and says when that was.
UPDATE lockwright_locks SET version = $3::bigint, kind = $4::text, record = $5::text, changed = clock_timestamp()
WHERE key = $1::text AND version = $2::bigint
  AND clock_timestamp() BETWEEN $6::timestamptz AND $7::timestamptz
RETURNING changed
