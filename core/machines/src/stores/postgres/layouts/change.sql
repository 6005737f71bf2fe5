-- What exchange.sql does, for one row that is expected to be there, is to be written, and of which nobody is told.
WITH changed AS (
  UPDATE lockwright_locks SET version = $3::bigint, kind = $4::text, record = $5::text, changed = clock_timestamp()
  WHERE key = $1::text AND version = $2::bigint
    AND clock_timestamp() BETWEEN to_timestamp($6::bigint / 1e6) AND to_timestamp($7::bigint / 1e6)
  RETURNING key
)
SELECT $1::text, changed.key IS NOT NULL, kept.version, kept.kind, kept.record,
  (extract(epoch FROM clock_timestamp()) * 1e6)::bigint
FROM (SELECT) AS once LEFT JOIN changed ON true
  LEFT JOIN lockwright_locks AS kept ON changed.key IS NULL AND kept.key = $1::text
