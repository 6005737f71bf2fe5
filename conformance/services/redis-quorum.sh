#!/usr/bin/env bash
# redis-quorum.sh start|stop|restart|uri: five Redis servers, each as redis.sh starts it, that together are one place; prints their
# addresses with a space between them. `restart` kills one after the other; they keep their data, and so count at once.
# LOCKWRIGHT_QUORUM_OPTIONS is what stands behind the last address.
. "$(dirname "$0")/lib/service.sh"

FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/redis-quorum
FIRST=${LOCKWRIGHT_REDIS_QUORUM_PORT:-7401}
OPTIONS=${LOCKWRIGHT_QUORUM_OPTIONS-max_ttl=30s&node_timeout=250ms&ttl=2s}
NODES=(1 2 3 4 5)

# on NUMBER WORD...: has one of them do that.
on() {
  local number=$1
  shift
  LOCKWRIGHT_RUN_DIR=$FOLDER/$number LOCKWRIGHT_REDIS_PORT=${PORT:-} "$(dirname "$0")/redis.sh" "$@"
}

# A server that was just made has granted nothing, and one that kept its data has forgotten nothing: so its marker is an old one. That
# it would count later without is tested in core/tests/quorum_redis.rs.
age() {
  local cli=(redis-cli -s "$FOLDER/$1/redis/socket") run
  run=$("${cli[@]}" info server | tr -d '\r' | sed -n 's/^run_id://p')
  "${cli[@]}" set 'lwq:{}' "$run 30000000 $(($(date +%s) - 60))000000" >/dev/null
}

# All of them at once.
all() {
  local number pids=()
  for number in "${NODES[@]}"; do
    on "$number" "$@" >/dev/null &
    pids+=($!)
  done
  for number in "${pids[@]}"; do wait "$number"; done
}

case ${1:-} in
  start)
    mkdir -p "$FOLDER"
    # One after the other: each takes the next port that nobody has.
    for number in "${NODES[@]}"; do PORT=$(free_port $((FIRST + number))) on "$number" start >/dev/null; done
    for number in "${NODES[@]}"; do age "$number"; done
    ;;
  stop)
    [[ ! -d $FOLDER ]] || all stop
    exit
    ;;
  restart)
    for number in "${NODES[@]}"; do
      on "$number" restart >/dev/null
      age "$number"
    done
    ;;
  uri) ;;
  requests)
    sum=0
    for number in "${NODES[@]}"; do sum=$((sum + $(on "$number" requests))); done
    echo "$sum"
    exit
    ;;
  foreign | residue)
    for number in "${NODES[@]}"; do on "$number" "$@"; done
    exit
    ;;
  *) die "say start (with empty data), stop, restart or uri" ;;
esac
uris=()
for number in "${NODES[@]}"; do uris+=("$(on "$number" uri)"); done
echo "${uris[*]}?$OPTIONS"
