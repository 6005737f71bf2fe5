-- The table of Lockwright's locks in PostgreSQL 10 or later. `lockwright schema URI --apply` executes this file; it may be executed again.
--
-- What a program needs that uses locks, and no more:
--   GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO that_program;
CREATE TABLE IF NOT EXISTS lockwright_locks (
    -- The prefix and the name. Compared byte by byte: no two names are one.
    key text COLLATE "C" PRIMARY KEY,
    -- A number of its own for every write: whoever writes says which version it read.
    version bigint NOT NULL,
    -- lock, rwlock, semaphore, latch or barrier.
    kind text NOT NULL,
    -- Who holds and who waits, as JSON; times are microseconds since 1970 by this server's clock.
    record text NOT NULL,
    changed timestamptz NOT NULL
) WITH (fillfactor = 70);
