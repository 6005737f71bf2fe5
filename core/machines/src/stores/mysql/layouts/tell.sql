-- Tells somebody something, if the statement before this one wrote its row.
INSERT INTO lockwright_told (inbox, id, message, told)
SELECT ?, ?, ?, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)) FROM (SELECT 1 AS one) AS one WHERE @written = 1
