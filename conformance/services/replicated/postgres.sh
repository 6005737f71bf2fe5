#!/usr/bin/env bash
# postgres.sh start|stop|restart|uri: a PostgreSQL whose commits wait for a standby. `restart` is a fail-over: the server is killed, its
# standby takes the port, where it may be read only at first, and is promoted.
. "$(dirname "$0")/../lib/postgres.sh"
. "$(dirname "$0")/../lib/replicated.sh"

NAME=postgres-replicated PORT_ENV=LOCKWRIGHT_POSTGRES_REPLICATED_PORT PORT_FIRST=8532

configure() { new_cluster; }

move_to() { echo "port = $1" >>postgresql.conf; }

# Options that are set by a statement are not those of a standby, which commits nothing.
make_replica() {
  mkdir -m 700 "$REPLICA"
  ((EUID != 0)) || chown postgres:postgres "$REPLICA"
  "${AS[@]}" "$POSTGRES_BIN/pg_basebackup" -h 127.0.0.1 -p "$PORT" -U root -D "$REPLICA" --write-recovery-conf --checkpoint fast --no-sync
  (cd "$REPLICA" && move_to $((PORT + 1)))
  (FOLDER=$REPLICA launch)
  wait_until streams >/dev/null
  ask -c "ALTER SYSTEM SET synchronous_standby_names = '*'" -c 'SELECT pg_reload_conf()' >/dev/null
  wait_until waits_for_it >/dev/null
}

streams() { [[ $(ask -c "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1 ]]; }
waits_for_it() { [[ $(ask -c "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1 ]]; }

# What it received it applies when it starts.
leave() { (FOLDER=$REPLICA halt INT); }

is_replica() { [[ -e standby.signal ]]; }
promote() { [[ $(ask -c 'SELECT pg_promote()') == t ]]; }

service "$@"
