-- Takes the lock where no row says that it is held, if it is time, and tells how it is then. Whoever gives back deletes
-- the row, and what it said of the last hold with it: so since when it is held is told once more when the row is ours
-- alone. Times are texts of one length, in their order: a row may hold any text.
-- Whoever sees that somebody else holds it asks for no row, so that waiters neither block the holder nor each other. That is
-- looked up by SELECT, since MariaDB locks the rows that SET reads: two who had looked could not write, a deadlock. Nobody who
-- inserts has looked for a row to update: that locks what is left of a deleted one, before the counter of the table.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now <= ?4 AND NOT EXISTS (SELECT 1 FROM `lock` AS kept WHERE kept.lock_name = ?1
  AND SUBSTRING(kept.`desc`, 35) <> ?2
  AND NOT (kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' AND SUBSTRING(kept.`desc`, 18, 16) <= LPAD(@now, 16, '0'))) INTO @may;
SELECT COUNT(*), COUNT(IF(SUBSTRING(`desc`, 35) = ?2, 1, NULL)) FROM `lock` WHERE lock_name = ?1 INTO @there, @again;
UPDATE `lock` AS kept SET kept.`desc` = IF(SUBSTRING(kept.`desc`, 35) = ?2,
  CONCAT(LEFT(kept.`desc`, 17), GREATEST(SUBSTRING(kept.`desc`, 18, 16), LPAD(@now + ?3, 16, '0')), ' ', ?2),
  CONCAT(LPAD(@now, 16, '0'), ' ', LPAD(@now + ?3, 16, '0'), ' ', ?2))
WHERE @may AND @there AND kept.lock_name = ?1 AND (SUBSTRING(kept.`desc`, 35) = ?2
  OR (kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' AND SUBSTRING(kept.`desc`, 18, 16) <= LPAD(@now, 16, '0')));
INSERT INTO `lock` (lock_name, `desc`)
SELECT ?1, CONCAT(LPAD(@now, 16, '0'), ' ', LPAD(@now + ?3, 16, '0'), ' ', ?2)
FROM (SELECT 1 AS one) AS one
WHERE @may AND NOT @there
ON DUPLICATE KEY UPDATE `lock`.lock_name = `lock`.lock_name;
UPDATE `lock` SET `desc` = CONCAT(LPAD(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 16, '0'), SUBSTRING(`desc`, 17))
WHERE @may AND @again = 0 AND lock_name = ?1 AND SUBSTRING(`desc`, 35) = ?2;
SELECT @now,
  CASE
    WHEN @now > ?4 THEN 2
    WHEN kept.`desc` IS NULL OR SUBSTRING(kept.`desc`, 35) <> ?2 THEN 0
    ELSE 1
  END,
  IF(kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t', SUBSTRING(kept.`desc`, 35), kept.`desc`),
  CASE WHEN kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN CAST(SUBSTRING(kept.`desc`, 18, 16) AS SIGNED) - @now
    WHEN kept.`desc` IS NOT NULL THEN 9223372036854775807 END,
  IF(kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t', CAST(LEFT(kept.`desc`, 16) AS SIGNED), NULL)
FROM (SELECT 1 AS one) AS one LEFT JOIN `lock` AS kept ON kept.lock_name = ?1
