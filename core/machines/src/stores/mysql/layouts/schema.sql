-- The tables of Lockwright's locks in MySQL 5.7 or MariaDB 10.2, or later ones. `lockwright schema URI --apply` executes this file; it may be executed again.
--
-- What a program needs that uses locks, and no more:
--   GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO that_program;
--   GRANT SELECT, INSERT, DELETE ON lockwright_told TO that_program;
CREATE TABLE IF NOT EXISTS lockwright_locks (
    -- The prefix and the name, as bytes of UTF-8: every collation of text, utf8mb4_bin too, takes some names that differ for one.
    name varbinary(1536) NOT NULL PRIMARY KEY,
    -- A number of its own for every write: whoever writes says which version it read.
    version bigint NOT NULL,
    -- lock, rwlock, semaphore, latch or barrier.
    kind varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- Who holds and who waits, as JSON; times are microseconds since 1970 by this server's clock.
    record longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- When that was, in the same microseconds.
    changed bigint NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What those who wait are told, by whoever gives back. They look here, and take it away.
CREATE TABLE IF NOT EXISTS lockwright_told (
    -- Whose it is: a number of a client.
    inbox bigint unsigned NOT NULL,
    -- A number of its own.
    id bigint NOT NULL,
    message varchar(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    -- When it was told, in the same microseconds: what nobody took for a minute is for nobody.
    told bigint NOT NULL,
    PRIMARY KEY (inbox, id),
    KEY (told)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
