-- Tells whose connection has it. What others may not know is left out by the server.
SELECT holder.id, CONCAT(activity.user, ' ', activity.host)
FROM (SELECT IS_USED_LOCK(?1) AS id) AS holder
LEFT JOIN information_schema.processlist AS activity ON activity.id = holder.id
WHERE holder.id IS NOT NULL
