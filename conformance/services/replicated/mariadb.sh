#!/usr/bin/env bash
# mariadb.sh start|stop|restart|uri: a MariaDB whose commits wait for a replica. `restart` is a fail-over: the server is killed, its
# replica takes the port, where it may be read only at first, and is promoted.
. "$(dirname "$0")/../lib/mariadb.sh"
. "$(dirname "$0")/../lib/replicated.sh"

NAME=mariadb-replicated PORT_ENV=LOCKWRIGHT_MARIADB_REPLICATED_PORT PORT_FIRST=8406

# The log is what the replica reads.
configure() {
  new_database
  cat >>my.cnf <<END
log-bin = changes
binlog_format = ROW
server_id = 1
skip-slave-start
rpl_semi_sync_master_timeout = 1000000000
rpl_semi_sync_master_wait_point = AFTER_SYNC
END
  sed -i /skip-log-bin/d my.cnf
}

move_to() { sed -i -e "s|^port = .*|port = $1|" -e "s|^datadir = .*|datadir = $PWD|" -e "s|^tmpdir = .*|tmpdir = $PWD|" my.cnf; }

# A copy of the stopped server: nothing is written meanwhile.
make_replica() {
  local at
  halt TERM
  cp -a "$FOLDER" "$REPLICA"
  launch
  (
    cd "$REPLICA"
    move_to $((PORT + 1))
    echo "$((PORT + 1))" >port
    sed -i -e "s/^server_id = .*/server_id = $((RANDOM + 2))/" my.cnf
    echo read_only = ON >>my.cnf
    touch replica
  )
  (FOLDER=$REPLICA launch)
  wait_until answers >/dev/null
  as_root -e 'SET GLOBAL rpl_semi_sync_master_enabled = ON'
  (
    cd "$REPLICA"
    wait_until answers >/dev/null
    # Of the server that was copied: the other one goes on.
    at=$(as_root -e 'SELECT @@gtid_binlog_pos')
    as_root -e "RESET MASTER; SET GLOBAL gtid_slave_pos = '$at'; SET GLOBAL rpl_semi_sync_slave_enabled = ON;
      CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = $PORT, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; START SLAVE"
  )
  wait_until waits_for_it >/dev/null
}

waits_for_it() { [[ $(as_root -e "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'") == *1 ]]; }

# What it received and did not apply would be asked for once more.
leave() {
  (cd "$REPLICA" && wait_until has_applied_all >/dev/null)
  (FOLDER=$REPLICA halt TERM)
}

has_applied_all() { [[ $(as_root -e 'SHOW SLAVE STATUS\G') == *'Slave has read all relay log'* ]]; }

is_replica() { [[ -e replica ]]; }

promote() {
  rm replica
  sed -i '/^read_only/d' my.cnf
  as_root -e 'RESET SLAVE ALL; SET GLOBAL read_only = OFF'
}

service "$@"
