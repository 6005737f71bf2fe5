-- Tells those who wait for the row, of whom each has the mark of that channel, once the transaction is committed.
SELECT CASE WHEN pg_try_advisory_lock(mark) THEN pg_advisory_unlock(mark)::text ELSE pg_notify($1::text, '')::text END
FROM (SELECT hashtextextended($1::text, 0) AS mark) AS marked
