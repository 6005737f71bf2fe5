#!/usr/bin/env bash
# postgres.sh start|stop|restart|uri: one PostgreSQL, with the table of the locks and a user who may do no more than locks need.
. "$(dirname "$0")/lib/postgres.sh"

NAME=postgres PORT_ENV=LOCKWRIGHT_POSTGRES_PORT PORT_FIRST=8432

configure() { new_cluster; }

service "$@"
