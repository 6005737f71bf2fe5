-- Has a transaction lock the row where nobody has, and tells how many there are of it, and when it had all of them. Where
-- nothing is said on the connection for so many milliseconds, the server ends it.
SET SESSION wait_timeout = ?2 DIV 1000 + 1;
START TRANSACTION;
SELECT COUNT(*) INTO @there FROM resource_lock WHERE resource_name = ?1;
SELECT COUNT(*) INTO @taken FROM resource_lock WHERE resource_name = ?1 FOR UPDATE SKIP LOCKED;
SELECT @there, IF(@there > 0 AND @taken = @there, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), NULL)
