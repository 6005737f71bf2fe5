#!/usr/bin/env bash
# redis-cluster.sh start|stop|restart|uri: a Redis Cluster of three masters with a replica each.
# redis-cluster.sh server N kill|down|up|stop|cont: what befalls one of the servers: kill -9 (and it is started again), the same for
#   good, started again, SIGSTOP, SIGCONT.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-cluster PORT_ENV=LOCKWRIGHT_REDIS_CLUSTER_PORT PORT_FIRST=7460
COMMAND=(bash run.sh)
SERVERS=(1 2 3 4 5 6)

packages() {
  need_command redis-server redis-server
  need_command redis-cli redis-tools
  need_command setpriv util-linux
}

server_port() { echo $(($(<port) + $1 - 1)); }

configure() {
  local number
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >password
  for number in "${SERVERS[@]}"; do
    mkdir "data-$number"
    cat >"server-$number.conf" <<END
bind 127.0.0.1
port $(server_port "$number")
dir data-$number
save ""
appendonly yes
appendfsync always
repl-diskless-sync yes
repl-diskless-sync-delay 0
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout 1000
cluster-allow-replica-migration no
requirepass $(<password)
masterauth $(<password)
END
  done
  # Nobody outlives whoever started it, so that all end with the process that this service is.
  cat >run.sh <<'END'
alive() {
  while :; do
    while [[ -e $1.down ]]; do sleep 0.05; done
    setpriv --pdeathsig KILL redis-server "$1.conf" >>"log-$1" 2>&1 &
    echo $! >"$1.pid"
    wait $! || sleep 0.05
  done
}
if [[ $# == 1 ]]; then
  alive "$1"
else
  for number in {1..6}; do setpriv --pdeathsig KILL bash run.sh "server-$number" & done
  wait
fi
END
}

ask_server() {
  local number=$1
  shift
  REDISCLI_AUTH=$(<password) timeout 2 redis-cli -p "$(server_port "$number")" "$@"
}

# Asks every master: what concerns one key is refused by all but one.
ask() {
  local number
  for number in "${SERVERS[@]}"; do
    [[ $(ask_server "$number" role) != master* ]] || ask_server "$number" "$@"
  done
}

# Made at the first start, as soon as all are there; later a cluster is good once every node says so, and every master has its
# replica.
answers() {
  local number nodes=()
  for number in "${SERVERS[@]}"; do
    [[ $(ask_server "$number" ping 2>/dev/null) == PONG ]] || return
    nodes+=("127.0.0.1:$(server_port "$number")")
  done
  if [[ ! -e made ]]; then
    REDISCLI_AUTH=$(<password) redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >made-log 2>&1 || return
    touch made
  fi
  for number in "${SERVERS[@]}"; do
    [[ $(ask_server "$number" cluster info 2>/dev/null) == *cluster_state:ok* ]] || return
    [[ $(ask_server "$number" info replication) == *role:master*connected_slaves:1*state=online* || $(ask_server "$number" info replication) == *master_link_status:up* ]] || return
  done
}

server() {
  local number=$1 pid
  pid=$(<"server-$number.pid")
  case $2 in
    kill) kill -KILL "$pid" ;;
    down) touch "server-$number.down" && kill -KILL "$pid" ;;
    up) rm -f "server-$number.down" ;;
    stop) kill -STOP "$pid" ;;
    cont) kill -CONT "$pid" ;;
    *) die "say kill, down, up, stop or cont" ;;
  esac
}

uri() {
  local number hosts=
  for number in 1 2 3; do hosts+="${hosts:+,}127.0.0.1:$(server_port "$number")"; done
  echo "redis+cluster://:$(<password)@$hosts"
}

tell_requests() {
  local number sum=0
  for number in "${SERVERS[@]}"; do
    sum=$((sum + $(ask_server "$number" info commandstats | awk -F '[:=,]' '/^cmdstat_(eval|evalsha):/ { sum += $3 } END { print sum + 0 }')))
  done
  echo "$sum"
}

case ${1:-} in
  server)
    FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/$NAME
    running || die "$NAME is not running"
    cd "$FOLDER"
    "$@"
    ;;
  *) service "$@" ;;
esac
