#!/usr/bin/env bash
# mariadb.sh start|stop|restart|uri: one MariaDB, with the table of the locks and a user who may do no more than locks need.
# It speaks TLS, too, by the authority in ca.crt.
. "$(dirname "$0")/lib/mariadb.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=mariadb PORT_ENV=LOCKWRIGHT_MARIADB_PORT PORT_FIRST=8306

configure() {
  certificates
  new_database
  cat >>my.cnf <<END
default_time_zone = '+05:30'
ssl_ca = $PWD/ca.crt
ssl_cert = $PWD/server.crt
ssl_key = $PWD/server.key
END
}

service "$@"
