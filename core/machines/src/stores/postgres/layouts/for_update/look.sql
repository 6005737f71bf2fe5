-- Tells whose transaction has it. What others may not know is left out by the server.
SELECT held.pid::text, concat_ws(' ', usename, application_name, host(client_addr), client_port)
FROM resource_lock AS kept
JOIN pg_locks AS held ON held.locktype = 'transactionid' AND held.transactionid = kept.xmax AND granted AND mode = 'ExclusiveLock'
LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE resource_name = $1::text
LIMIT 1
