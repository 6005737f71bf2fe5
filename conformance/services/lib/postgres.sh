# What the services of PostgreSQL share; sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

# Debian keeps them off the PATH, and the server refuses to be root.
POSTGRES_BIN=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1 || true)
AS=()
((EUID != 0)) || AS=(setpriv --reuid postgres --regid postgres --clear-groups)
COMMAND=()
# What a killed server leaves behind is a process for each connection, and while one of them is there no other server starts.
has_threads() {
  local cwd
  for cwd in /proc/[0-9]*/cwd; do [[ ! $cwd -ef $FOLDER ]] || return 0; done
  return 1
}

SCHEMA=$ROOT/core/machines/src/stores/postgres/layouts/schema.sql

# The file of a killed server names a process that nobody may have reaped yet.
COMMAND=("${AS[@]}" bash -c 'rm -f postmaster.pid && exec "$(compgen -G "/usr/lib/postgresql/*/bin/postgres" | sort -V | tail -1)" -D .')

packages() {
  [[ -x $POSTGRES_BIN/postgres ]] || need_apt postgresql
  # The tests of the core start it.
  need_command pgbouncer pgbouncer
}

# new_cluster: makes the data of a server in the current folder, where its process stays.
new_cluster() {
  POSTGRES_BIN=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1)
  mkdir new
  ((EUID != 0)) || chown postgres:postgres . new
  "${AS[@]}" "$POSTGRES_BIN/initdb" -D new -U root -A trust -E UTF8 --locale C --no-sync >/dev/null
  mv new/* .
  rmdir new
  chmod 700 .
  cat >>postgresql.conf <<END
listen_addresses = '127.0.0.1'
port = $PORT
unix_socket_directories = ''
max_connections = 200
shared_preload_libraries = 'pg_stat_statements'
fsync = off
END
  cat >pg_hba.conf <<END
host all root 127.0.0.1/32 trust
host replication root 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
END
}

ask() { psql -h 127.0.0.1 -p "$(<port)" -U root -d locks -qAtX -v ON_ERROR_STOP=1 "$@"; }

# The first to ask makes the database: a server that never ran takes no commands.
answers() {
  psql -h 127.0.0.1 -p "$(<port)" -U root -d postgres -qAtXc 'SELECT 1' &>/dev/null || return 1
  [[ -e made ]] || { make && touch made; }
}

make() {
  psql -h 127.0.0.1 -p "$(<port)" -U root -d postgres -qX -v ON_ERROR_STOP=1 >&2 \
    -c "CREATE USER locker PASSWORD 'pa:ss@word'" -c 'CREATE ROLE tls_only' -c 'CREATE USER lockwright IN ROLE locker' \
    -c 'CREATE DATABASE locks'
  ask -f "$SCHEMA" -c 'GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO locker' -c 'CREATE EXTENSION pg_stat_statements' \
    -f "$ROOT/conformance/services/lib/others-postgres.sql" >&2
}

uri() { echo "postgres://locker:pa%3Ass%40word@127.0.0.1:$(<port)/locks"; }

# Every statement of ours is one call, and the table of counts belongs to the server.
tell_requests() {
  ask -c "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%lockwright_locks%'"
}

tell_foreign() {
  ask -c "INSERT INTO lockwright_locks VALUES ('$1', 1, 'carousel', '{}', now())"
}

# Rows stay for a while after the hold in them has ended, whoever waits there. No scenario has one for longer than a minute.
tell_residue() {
  ask -c "SELECT key, record FROM lockwright_locks WHERE strpos(key, '$1') > 0 AND (
      kind = 'lock' AND (record::json #>> '{lock,hold,expires}')::bigint > (extract(epoch FROM clock_timestamp()) + 60) * 1000000
      OR kind IN ('rwlock', 'semaphore') AND record !~ '\"used\":0,.*\"waiting\":\[\]')
    UNION ALL SELECT name, locked_by FROM shedlock WHERE strpos(name, '$1') > 0 AND lock_until > timezone('utc', clock_timestamp())
    AND strpos(locked_by, chr(9)) > 0"
}
