-- Makes the row, unless it is there; who made it in a transaction that is open is not waited for, where that can be said.
/*M!100300 SET STATEMENT innodb_lock_wait_timeout = 0 FOR */ INSERT IGNORE INTO resource_lock (resource_name, owner)
VALUES (?1, 'lockwright');
SELECT 1
