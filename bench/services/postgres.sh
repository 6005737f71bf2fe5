#!/usr/bin/env bash
# postgres.sh start|stop|uri: a server for figures, as it is installed: what it answers is on disk.
. "$(dirname "$0")/../../conformance/services/lib/postgres.sh"

NAME=bench-postgres PORT_ENV=LOCKWRIGHT_BENCH_POSTGRES_PORT PORT_FIRST=8489

configure() {
  new_cluster
  echo 'fsync = on' >>postgresql.conf
}

service "$@"
