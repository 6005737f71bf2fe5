#!/usr/bin/env bash
# postgres.sh start|stop|restart|uri: one PostgreSQL, with the table of the locks and a user who may do no more than locks need.
# It speaks TLS, too, by the authority in ca.crt: whoever is in tls_only has to, and lockwright is known by its certificate.
. "$(dirname "$0")/lib/postgres.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=postgres PORT_ENV=LOCKWRIGHT_POSTGRES_PORT PORT_FIRST=8432

configure() {
  new_cluster
  certificates
  ((EUID != 0)) || chown postgres:postgres server.key
  cat >>postgresql.conf <<END
ssl = on
ssl_ca_file = 'ca.crt'
ssl_cert_file = 'server.crt'
ssl_key_file = 'server.key'
END
  # The first line that fits counts.
  cat - pg_hba.conf >pg_hba.new <<END
hostnossl all +tls_only 127.0.0.1/32 reject
hostssl all lockwright 127.0.0.1/32 cert
END
  mv pg_hba.new pg_hba.conf
}

service "$@"
