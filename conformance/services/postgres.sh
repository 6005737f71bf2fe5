#!/usr/bin/env bash
# postgres.sh start|stop|restart|uri: one PostgreSQL, with the table of the locks and a user who may do no more than locks need.
. "$(dirname "$0")/lib/postgres.sh"

NAME=postgres PORT_ENV=LOCKWRIGHT_POSTGRES_PORT PORT_FIRST=8432

configure() { new_cluster; }

# Every statement of ours is one call, and the table of counts belongs to the server.
tell_requests() {
  ask -c "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%lockwright_locks%'"
}

tell_foreign() {
  ask -c "INSERT INTO lockwright_locks VALUES ('$1', 1, 'carousel', '{}', now())"
}

# Rows stay for a while. What must not is somebody in them.
tell_residue() {
  ask -c "SELECT key, record FROM lockwright_locks WHERE strpos(key, '$1') > 0 AND kind <> 'carousel'
    AND record !~ '\"(hold)\":null.*\"waiting\":\[\]' AND record !~ '\"used\":0,.*\"waiting\":\[\]' AND kind IN ('lock', 'rwlock', 'semaphore')
    UNION ALL SELECT name, locked_by FROM shedlock WHERE strpos(name, '$1') > 0 AND lock_until > timezone('utc', clock_timestamp())
    AND strpos(locked_by, chr(9)) > 0"
}

service "$@"
