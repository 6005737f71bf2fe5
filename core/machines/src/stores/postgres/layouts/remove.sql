-- Removes rows that are still as they were seen.
DELETE FROM lockwright_locks AS kept
USING unnest($1::text[], $2::bigint[]) AS seen (key, version)
WHERE kept.key = seen.key AND kept.version = seen.version
