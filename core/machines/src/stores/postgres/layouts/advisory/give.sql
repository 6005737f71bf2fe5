-- Has this connection give back each of these locks, and tells which it had; and tells those who wait for it, of whom
-- each has the mark of that channel.
SELECT (CASE WHEN pg_advisory_unlock(key::bigint) THEN 1 ELSE 0 END)::text,
  CASE WHEN pg_try_advisory_lock(mark) THEN pg_advisory_unlock(mark)::text ELSE pg_notify(channel, '')::text END
FROM (
  SELECT key, place, channel, hashtextextended(channel, 0) AS mark
  FROM (
    SELECT key, place, 'lockwright_advisory_' || key AS channel
    FROM unnest($1::text[]) WITH ORDINALITY AS asked (key, place)
  ) AS named
) AS marked ORDER BY place
