-- Has this connection take the lock where none has, nor itself: it would be given what it has again, also under a name
-- that is the same to the server. Tells when it had it, or zero; nothing where the server cannot say whether it has it.
SELECT CASE WHEN IS_USED_LOCK(?1) = CONNECTION_ID() THEN 0 ELSE GET_LOCK(?1, 0) END INTO @taken;
SELECT @taken * TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))
