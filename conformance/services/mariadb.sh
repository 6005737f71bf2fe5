#!/usr/bin/env bash
# mariadb.sh start|stop|restart|uri: one MariaDB, with the table of the locks and a user who may do no more than locks need.
# It speaks TLS, too, by the authority in ca.crt.
. "$(dirname "$0")/lib/mariadb.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=mariadb PORT_ENV=LOCKWRIGHT_MARIADB_PORT PORT_FIRST=8306

# A kill takes no commit away: the system has it.
configure() {
  certificates
  new_database
  cat >>my.cnf <<END
innodb_flush_log_at_trx_commit = 2
default_time_zone = '+05:30'
ssl_ca = $PWD/ca.crt
ssl_cert = $PWD/server.crt
ssl_key = $PWD/server.key
END
}

# Whatever is asked for ends by a look at the rows.
tell_requests() {
  ask "SELECT COALESCE(SUM(SELECT_COMMANDS), 0) FROM information_schema.USER_STATISTICS WHERE USER = 'locker'"
}

tell_foreign() {
  ask "INSERT INTO lockwright_locks VALUES ('$1', 1, 'carousel', '{}', 0)"
}

# Rows stay for a while. What must not is somebody in them.
tell_residue() {
  ask "SELECT name, record FROM lockwright_locks WHERE LOCATE('$1', name) > 0 AND kind <> 'carousel'
    AND record NOT REGEXP '\"hold\":null.*\"waiting\":\\\\[\\\\]' AND record NOT REGEXP '\"used\":0,.*\"waiting\":\\\\[\\\\]'
    AND kind IN ('lock', 'rwlock', 'semaphore')
    UNION ALL SELECT name, locked_by FROM shedlock WHERE LOCATE('$1', name) > 0 AND lock_until > UTC_TIMESTAMP(6)
    AND LOCATE(CHAR(9), locked_by) > 0"
}

service "$@"
