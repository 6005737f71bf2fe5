-- The tables of other libraries as they document them: ShedLock 7, Spring Integration 7 (schema-mysql.sql), and
-- Symfony's PdoStore, and of tutorials; in the character set that MySQL has by itself.
CREATE TABLE shedlock (
    name varchar(64) NOT NULL,
    lock_until timestamp(3) NOT NULL,
    locked_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    locked_by varchar(255) NOT NULL,
    PRIMARY KEY (name)
) CHARACTER SET utf8mb4;
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

CREATE TABLE lock_keys (
    key_id VARCHAR(64) NOT NULL PRIMARY KEY,
    key_token VARCHAR(44) NOT NULL,
    key_expiration INTEGER UNSIGNED NOT NULL
) COLLATE utf8mb4_bin, ENGINE = InnoDB;
GRANT SELECT, INSERT, UPDATE, DELETE ON lock_keys TO locker;

CREATE TABLE `lock` (
    id int(11) NOT NULL AUTO_INCREMENT,
    lock_name varchar(64) NOT NULL DEFAULT '',
    `desc` varchar(1024) NOT NULL DEFAULT '',
    update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (id),
    UNIQUE KEY uidx_lock_name (lock_name) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8;
GRANT SELECT, INSERT, UPDATE, DELETE ON `lock` TO locker;

CREATE TABLE resource_lock (
    resource_name varchar(64) NOT NULL,
    owner varchar(255),
    PRIMARY KEY (resource_name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
GRANT SELECT, INSERT, UPDATE ON resource_lock TO locker;
