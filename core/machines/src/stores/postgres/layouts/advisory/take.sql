-- Has this connection take each of these locks that no other has, and tells when it had it, or nothing.
SELECT (CASE WHEN is_taken THEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint ELSE 0 END)::text
FROM (
  SELECT pg_try_advisory_lock(key::bigint) AS is_taken
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (key, place) ORDER BY place
) AS tried
