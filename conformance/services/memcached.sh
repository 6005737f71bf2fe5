#!/usr/bin/env bash
# memcached.sh start|stop|restart|uri: one memcached. LOCKWRIGHT_MEMCACHED_OPTIONS are further options of its own.
. "$(dirname "$0")/lib/service.sh"

NAME=memcached PORT_ENV=LOCKWRIGHT_MEMCACHED_PORT PORT_FIRST=8411
COMMAND=(bash run)

packages() { need_command memcached memcached; }

configure() {
  local user=()
  ((UID != 0)) || user=(-u nobody)
  echo "exec memcached ${user[*]} -l 127.0.0.1 -U 0 -p $PORT ${LOCKWRIGHT_MEMCACHED_OPTIONS:-}" >run
}

# ask LINE COMMAND...: hands what the server says to it to a command.
ask() {
  local server
  exec {server}<>"/dev/tcp/127.0.0.1/$(<port)"
  printf '%s\r\n' "$1" >&"$server"
  timeout 5 "${@:2}" <&"$server"
  exec {server}>&-
}

# With a login it says that it wants one, and does not hang up.
answers() { [[ $(ask mn head -n 1 2>/dev/null) == @(MN|*unauthenticated)* ]]; }

uri() { echo "memcached://127.0.0.1:$PORT"; }

tell_requests() {
  ask stats sed '/^END/q' | tr -d '\r' | awk '$2 ~ /^(cmd_get|cmd_set|delete_hits|delete_misses)$/ { sum += $3 } END { print sum + 0 }'
}

# What never ends.
tell_residue() { ask 'lru_crawler metadump all' sed '/^END/q' | tr -d '\r' | grep -F "$1" | grep -F ' exp=-1 ' || true; }

service "$@"
