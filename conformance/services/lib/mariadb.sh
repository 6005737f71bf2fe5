# What the services of MariaDB share; sourced, never run. The operator's own user is root, without a password.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

# The server refuses to be root.
AS=()
((EUID != 0)) || AS=(setpriv --reuid mysql --regid mysql --clear-groups)
COMMAND=("${AS[@]}" mariadbd --defaults-file=my.cnf)
SCHEMA=$ROOT/core/machines/src/stores/mysql/layouts/schema.sql

packages() { need_command mariadbd mariadb-server; }

# new_database: makes the data of a server in the current folder, where its process is looked for. The path of a socket has to be short,
# wherever this tree lies; and there is no need of one. Where several have their temporary files in one folder, one that starts
# deletes those of the others. A kill takes no commit away: the system has it.
new_database() {
  cat >my.cnf <<END
[mariadbd]
datadir = $PWD
tmpdir = $PWD
socket = ''
pid-file = server.pid
bind-address = 127.0.0.1
port = $PORT
skip-name-resolve
skip-log-bin
max_connections = 200
innodb_buffer_pool_size = 32M
innodb_log_file_size = 16M
innodb_flush_log_at_trx_commit = 2
userstat = ON
END
  ((EUID != 0)) || chown -R mysql:mysql .
  "${AS[@]}" mariadb-install-db --no-defaults --datadir="$PWD" --auth-root-authentication-method=normal \
    --skip-test-db >/dev/null
}

as_root() { mariadb --no-defaults -h 127.0.0.1 -P "$(<port)" -u root -BN "$@"; }
ask() { as_root locks -e "$1"; }

# The first to ask makes the database: a server that never ran takes no commands.
answers() {
  as_root -e 'SELECT 1' &>/dev/null || return 1
  [[ -e made ]] || { make && touch made; }
}

make() {
  as_root -e "CREATE DATABASE locks; CREATE USER locker IDENTIFIED BY 'pa:ss@word'"
  as_root locks <"$SCHEMA"
  ask 'GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright_locks TO locker; GRANT SELECT, INSERT, DELETE ON lockwright_told TO locker'
  as_root locks <"$ROOT/conformance/services/lib/others-mysql.sql"
}

uri() { echo "mysql://locker:pa%3Ass%40word@127.0.0.1:$(<port)/locks"; }

# Whatever is asked for ends by a look at the rows.
tell_requests() {
  ask "SELECT COALESCE(SUM(SELECT_COMMANDS), 0) FROM information_schema.USER_STATISTICS WHERE USER = 'locker'"
}

tell_foreign() {
  ask "INSERT INTO lockwright_locks VALUES ('$1', 1, 'carousel', '{}', 0)"
}

# Rows stay for a while after the hold in them has ended, whoever waits there. No scenario has one for longer than a minute.
tell_residue() {
  ask "SELECT name, record FROM lockwright_locks WHERE LOCATE('$1', name) > 0 AND (
      kind = 'lock' AND JSON_VALUE(record, '\$.lock.hold.expires') > (UNIX_TIMESTAMP(NOW(6)) + 60) * 1000000
      OR kind IN ('rwlock', 'semaphore') AND record NOT REGEXP '\"used\":0,.*\"waiting\":\\\\[\\\\]')
    UNION ALL SELECT name, locked_by FROM shedlock WHERE LOCATE('$1', name) > 0 AND lock_until > UTC_TIMESTAMP(6)
    AND LOCATE(CHAR(9), locked_by) > 0"
}
