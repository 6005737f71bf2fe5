-- Removes a row that is still as it was seen.
DELETE FROM lockwright_locks WHERE name = ? AND version = ?
