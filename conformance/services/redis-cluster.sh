#!/usr/bin/env bash
# redis-cluster.sh start|stop|restart|uri: a Redis Cluster of three masters with a replica each.
# redis-cluster.sh server N kill|down|up|stop|cont: what befalls one of the servers: kill -9 (and it is started again), the same for
#   good, started again, SIGSTOP, SIGCONT.
# redis-cluster.sh member N kill|stop|cont: the same, but that a master which is killed comes back once another one has its place.
# redis-cluster.sh leader LOCK: the number of the master that the lock of that name lies at.
# redis-cluster.sh move LOCK: the slot of that lock moves to another master, key by key.
# redis-cluster.sh whole: waits until all serve, and every master has its replica.
. "$(dirname "$0")/lib/redis-cluster.sh"

NAME=redis-cluster PORT_ENV=LOCKWRIGHT_REDIS_CLUSTER_PORT PORT_FIRST=7460

configure() {
  secret >password
  servers <<END
appendonly yes
appendfsync always
cluster-node-timeout 1000
requirepass $(<password)
masterauth $(<password)
END
}

masters() {
  local number
  for number in "${SERVERS[@]}"; do [[ $(ask_server "$number" role) != master* ]] || echo "$number"; done
}

# Asks every master: what concerns one key is refused by all but one.
ask() {
  local number
  for number in $(masters); do ask_server "$number" "$@"; done
}

# What any of them says where the lock lies; a master that was stopped may still believe that it does there.
leads() {
  local number said
  for number in "${SERVERS[@]}"; do
    said=$(ask_server "$number" exists "lw:{$1}" 2>/dev/null) || continue
    case $said in
      *MOVED*) echo $((${said##*:} - $(<port) + 1)) && return ;;
      [01]) echo "$number" && return ;;
    esac
  done
  return 1
}

move() {
  local from to slot node number keys
  from=$(leads "$1")
  to=$(masters | grep -vxF "$from" | shuf -n 1)
  # As the lock's key says it, in which only the name counts.
  slot=$(ask_server "$from" cluster keyslot "{$1}")
  node=$(ask_server "$to" cluster myid)
  ask_server "$to" cluster setslot "$slot" importing "$(ask_server "$from" cluster myid)" >/dev/null
  ask_server "$from" cluster setslot "$slot" migrating "$node" >/dev/null
  while mapfile -t keys < <(ask_server "$from" cluster getkeysinslot "$slot" 100) && [[ ${keys[0]:-} ]]; do
    ask_server "$from" migrate 127.0.0.1 "$(server_port "$to")" '' 0 5000 auth "$(<password)" keys "${keys[@]}" >/dev/null
  done
  for number in "$to" "$from" $(masters); do ask_server "$number" cluster setslot "$slot" node "$node" >/dev/null; done
}

# Nobody has slots there any more.
is_replaced() {
  local number
  for number in "${SERVERS[@]}"; do
    ask_server "$number" cluster nodes 2>/dev/null | grep -F ":$(server_port "$1")@" | awk 'NF > 8 { exit 1 }' || continue
    [[ $number == "$1" ]] || return 0
  done
  return 1
}

has_redisson

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

several "$@"
