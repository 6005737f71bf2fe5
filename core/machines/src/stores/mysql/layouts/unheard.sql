-- Takes away what nobody heard for a minute: whoever it is for is gone, or has asked since.
DELETE FROM lockwright_told WHERE told < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)) - 60000000
