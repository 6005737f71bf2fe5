-- Writes each row that is as expected, and tells of those that are not. `expected` is a version, 0 for no row, -1 for
-- one that is only to be read; `version` is 0 where nothing is to be written.
WITH asked AS (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
    AS asked (key, expected, version, kind, record)
), added AS (
  INSERT INTO lockwright_locks (key, version, kind, record, changed)
  SELECT key, version, kind, record, clock_timestamp() FROM asked
  WHERE expected = 0 AND version <> 0
    AND clock_timestamp() BETWEEN $6::timestamptz AND $7::timestamptz
  ON CONFLICT (key) DO NOTHING
  RETURNING key
), changed AS (
  UPDATE lockwright_locks AS kept
  SET version = asked.version, kind = asked.kind, record = asked.record, changed = clock_timestamp()
  FROM asked
  WHERE kept.key = asked.key AND kept.version = asked.expected AND asked.version <> 0
    AND clock_timestamp() BETWEEN $6::timestamptz AND $7::timestamptz
  RETURNING kept.key
), written AS (
  SELECT key FROM added UNION ALL SELECT key FROM changed
), told AS (
  SELECT count(pg_notify(push.channel, push.message)) AS pushes
  FROM unnest($8::text[], $9::text[], $10::text[]) AS push (key, channel, message) JOIN written USING (key)
)
SELECT
  asked.key,
  written.key IS NOT NULL
    OR asked.version = 0 AND asked.expected = coalesce(kept.version, 0)
      AND clock_timestamp() BETWEEN $6::timestamptz AND $7::timestamptz AS done,
  CASE WHEN written.key IS NULL THEN kept.version END,
  CASE WHEN written.key IS NULL THEN kept.kind END,
  CASE WHEN written.key IS NULL THEN kept.record END,
  clock_timestamp()
FROM asked LEFT JOIN written USING (key) LEFT JOIN lockwright_locks AS kept USING (key), told
