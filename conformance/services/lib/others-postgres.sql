-- The tables of other libraries as they document them: ShedLock 7, Spring Integration 7 (schema-postgresql.sql), and
-- Symfony's PdoStore, and of tutorials.
CREATE TABLE shedlock (
    name varchar(64) NOT NULL,
    lock_until timestamp NOT NULL,
    locked_at timestamp NOT NULL,
    locked_by varchar(255) NOT NULL,
    PRIMARY KEY (name)
);
GRANT SELECT, INSERT, UPDATE ON shedlock TO locker;

CREATE TABLE INT_LOCK (
    LOCK_KEY char(36) NOT NULL,
    REGION varchar(100) NOT NULL,
    CLIENT_ID char(36),
    CREATED_DATE timestamp NOT NULL,
    EXPIRED_AFTER timestamp NOT NULL,
    CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON INT_LOCK TO locker;

CREATE TABLE lock_keys (
    key_id VARCHAR(64) NOT NULL PRIMARY KEY,
    key_token VARCHAR(64) NOT NULL,
    key_expiration INTEGER
);
GRANT SELECT, INSERT, UPDATE, DELETE ON lock_keys TO locker;

CREATE TABLE lock (
    id serial PRIMARY KEY,
    lock_name varchar(64) NOT NULL DEFAULT '' UNIQUE,
    "desc" varchar(1024) NOT NULL DEFAULT '',
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
);
GRANT SELECT, INSERT, UPDATE, DELETE ON lock TO locker;
GRANT USAGE ON SEQUENCE lock_id_seq TO locker;

CREATE TABLE resource_lock (
    resource_name varchar(64) NOT NULL PRIMARY KEY,
    owner varchar(255)
);
GRANT SELECT, INSERT, UPDATE ON resource_lock TO locker;
