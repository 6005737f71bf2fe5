-- The names of locks that are held and begin so, in their order, behind one of them.
SET @now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
SELECT @now, kept.lock_name FROM `lock` AS kept
WHERE NOT (kept.`desc` REGEXP '^[0-9]{16} [0-9]{16} [0-9a-f]{32}\t' AND SUBSTRING(kept.`desc`, 18, 16) <= LPAD(@now, 16, '0'))
  AND LEFT(kept.lock_name, CHAR_LENGTH(?1)) = ?1 AND kept.lock_name > ?2
ORDER BY kept.lock_name LIMIT 500
