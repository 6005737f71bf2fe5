-- Deletes the row, and tells whether the lease was not over, or how another row is.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT COUNT(*) FROM `lock`
WHERE lock_name = ?1 AND SUBSTRING(`desc`, 35) = ?2 AND SUBSTRING(`desc`, 18, 16) > LPAD(@now, 16, '0') INTO @held;
DELETE FROM `lock` WHERE lock_name = ?1 AND SUBSTRING(`desc`, 35) = ?2;
SET @freed = @held * ROW_COUNT();
SELECT @now, @freed,
  IF(kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t', SUBSTRING(kept.`desc`, 35), kept.`desc`),
  CASE WHEN kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' THEN CAST(SUBSTRING(kept.`desc`, 18, 16) AS SIGNED) - @now
    WHEN kept.`desc` IS NOT NULL THEN 9223372036854775807 END,
  IF(kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t', CAST(LEFT(kept.`desc`, 16) AS SIGNED), NULL)
FROM (SELECT 1 AS one) AS one LEFT JOIN `lock` AS kept ON kept.lock_name = ?1
