-- The tables of other libraries as they document them: ShedLock 7, and Spring Integration 7 (schema-mysql.sql).
CREATE TABLE shedlock (
    name varchar(64) NOT NULL,
    lock_until timestamp(3) NOT NULL,
    locked_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_by varchar(255) NOT NULL,
    PRIMARY KEY (name)
);
GRANT SELECT, INSERT, UPDATE ON shedlock TO locker;

CREATE TABLE INT_LOCK (
    LOCK_KEY char(36) NOT NULL,
    REGION varchar(100) NOT NULL,
    CLIENT_ID char(36),
    CREATED_DATE datetime(6) NOT NULL,
    EXPIRED_AFTER datetime(6) NOT NULL,
    CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION)
) ENGINE = InnoDB;
GRANT SELECT, INSERT, UPDATE, DELETE ON INT_LOCK TO locker;
