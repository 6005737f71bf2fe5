-- Takes away what nobody heard for a minute: whoever it is for is gone, or has asked since.
DELETE FROM lockwright_told WHERE told < TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6)) - 60000000
