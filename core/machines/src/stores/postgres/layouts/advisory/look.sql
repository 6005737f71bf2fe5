-- Tells whose connection has it. What others may not know is left out by the server.
SELECT held.pid::text, concat_ws(' ', usename, application_name, host(client_addr), client_port)
FROM pg_locks AS held LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND (classid::bigint << 32 | objid::bigint) = $1::text::bigint
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
LIMIT 1
