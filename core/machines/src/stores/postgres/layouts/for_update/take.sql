-- Has this transaction lock the row where nobody has, and tells how many there are of it, and when it had all of them.
-- Where nothing is said on the connection for so many milliseconds, the server ends it.
SELECT there::text,
  CASE WHEN there > 0 AND taken = there THEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint END::text,
  set_config('idle_in_transaction_session_timeout', $2::bigint::text, true)
FROM (
  SELECT
    (SELECT count(*) FROM resource_lock WHERE resource_name = $1::text) AS there,
    (SELECT count(*) FROM (
      SELECT FROM resource_lock WHERE resource_name = $1::text FOR UPDATE SKIP LOCKED
    ) AS locked) AS taken
  OFFSET 0
) AS seen
