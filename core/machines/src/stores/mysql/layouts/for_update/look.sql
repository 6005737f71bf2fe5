-- Tells whether somebody's transaction has it; whose, the server tells nobody. The row is locked for the moment.
SELECT COUNT(*) INTO @there FROM resource_lock WHERE resource_name = ?1;
SELECT COUNT(*) INTO @free FROM resource_lock WHERE resource_name = ?1 FOR UPDATE SKIP LOCKED;
SELECT 'somebody', '' FROM (SELECT 1 AS one) AS one WHERE @free < @there
