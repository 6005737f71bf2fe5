#!/usr/bin/env bash
# mariadb.sh start|stop|uri: a server for figures, as it is installed: what it answers is on disk.
. "$(dirname "$0")/../../conformance/services/lib/mariadb.sh"

NAME=bench-mariadb PORT_ENV=LOCKWRIGHT_BENCH_MARIADB_PORT PORT_FIRST=8389

configure() { new_database; }

service "$@"
