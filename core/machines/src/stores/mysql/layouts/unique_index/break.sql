-- Takes the lock from whoever of ours has held it since then.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
DELETE FROM `lock`
WHERE lock_name = ?1 AND `desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t'
  AND LEFT(`desc`, 16) = LPAD(?2, 16, '0') AND SUBSTRING(`desc`, 18, 16) > LPAD(@now, 16, '0');
SET @freed = ROW_COUNT();
SELECT @now, @freed
