-- Makes a lease last longer that is not over.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
UPDATE `lock` SET `desc` = CONCAT(LEFT(`desc`, 17), GREATEST(SUBSTRING(`desc`, 18, 16), LPAD(@now + ?3, 16, '0')), ' ', ?2)
WHERE lock_name = ?1 AND SUBSTRING(`desc`, 35) = ?2 AND SUBSTRING(`desc`, 18, 16) > LPAD(@now, 16, '0');
SELECT @now, COUNT(*) FROM `lock`
WHERE lock_name = ?1 AND SUBSTRING(`desc`, 35) = ?2 AND SUBSTRING(`desc`, 18, 16) >= LPAD(@now + ?3, 16, '0')
