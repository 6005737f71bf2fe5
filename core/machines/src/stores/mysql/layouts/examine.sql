-- What the server says of itself and of its tables: names and values. What a program does is explained last, which takes the rights to
-- do it and does nothing: what is refused ends it.
SELECT 'now', TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6));
SHOW VARIABLES WHERE Variable_name IN ('version', 'read_only', 'innodb_read_only', 'tx_isolation', 'transaction_isolation', 'log_bin',
  'binlog_format', 'wsrep_on', 'innodb_flush_log_at_trx_commit', 'sync_binlog');
SELECT CONCAT(TABLE_NAME, '.engine'), ENGINE FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('lockwright_locks', 'lockwright_told');
SELECT 'name', COALESCE(COLLATION_NAME, DATA_TYPE) FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'lockwright_locks' AND COLUMN_NAME = 'name';
SELECT CONCAT(TABLE_NAME, '.key'), GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('lockwright_locks', 'lockwright_told') AND INDEX_NAME = 'PRIMARY' GROUP BY TABLE_NAME;
EXPLAIN SELECT record FROM lockwright_locks WHERE name = '';
EXPLAIN INSERT INTO lockwright_locks (name, version, kind, record, changed) VALUES ('', 0, '', '', 0);
EXPLAIN UPDATE lockwright_locks SET version = 0 WHERE name = '';
EXPLAIN DELETE FROM lockwright_locks WHERE name = '';
EXPLAIN SELECT message FROM lockwright_told WHERE inbox = 0;
EXPLAIN INSERT INTO lockwright_told (inbox, id, message, told) VALUES (0, 0, '', 0);
EXPLAIN DELETE FROM lockwright_told WHERE inbox = 0
