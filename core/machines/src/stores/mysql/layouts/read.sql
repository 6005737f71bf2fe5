-- The time, and how rows are; the records of those alone that are not as whoever asks wrote them just now.
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)),
  kept.name, kept.version, kept.kind, IF(kept.version IN (?), NULL, kept.record)
FROM (SELECT 1 AS one) AS one LEFT JOIN lockwright_locks AS kept ON kept.name IN (?)
