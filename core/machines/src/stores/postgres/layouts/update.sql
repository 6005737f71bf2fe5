-- Writes a row that is as expected, if it is time, and says when that was. Times are microseconds since 1970.
UPDATE lockwright_locks SET version = $3::bigint, kind = $4::text, record = $5::text, changed = clock_timestamp()
WHERE key = $1::text AND version = $2::bigint
  AND clock_timestamp() BETWEEN to_timestamp($6::bigint / 1e6) AND to_timestamp($7::bigint / 1e6)
RETURNING (extract(epoch FROM clock_timestamp()) * 1e6)::bigint
