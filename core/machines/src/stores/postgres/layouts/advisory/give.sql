-- Has this connection give back each of these locks, and tells which it had.
SELECT (CASE WHEN pg_advisory_unlock(key::bigint) THEN 1 ELSE 0 END)::text
FROM unnest($1::text[]) WITH ORDINALITY AS asked (key, place) ORDER BY place
