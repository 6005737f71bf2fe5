#!/usr/bin/env bash
# redis-sentinel.sh start|stop|restart|uri: a master, two replicas and three sentinels, with passwords for both kinds.
# redis-sentinel.sh server N kill|down|up|stop|cont: what befalls one of the servers: kill -9 (and it is started again), the same for
#   good, started again, SIGSTOP, SIGCONT.
# redis-sentinel.sh member N kill|stop|cont: the same, but that a master which is killed comes back once another one has its place.
# redis-sentinel.sh leader: the number of the server that the sentinels name, once they do.
# redis-sentinel.sh whole: waits until all serve, and both replicas follow.
# redis-sentinel.sh master: the number of the server that the sentinels name.
. "$(dirname "$0")/lib/redis-servers.sh"

NAME=redis-sentinel PORT_ENV=LOCKWRIGHT_REDIS_SENTINEL_PORT PORT_FIRST=7440
SERVERS=(1 2 3)

sentinel_port() { echo $(($(<port) + 2 + $1)); }

configure() {
  local number
  secret >password
  secret >sentinel-password
  for number in "${SERVERS[@]}"; do
    configure_server "$number" <<END
appendonly yes
appendfsync always
requirepass $(<password)
masterauth $(<password)
END
    ((number == 1)) || echo "replicaof 127.0.0.1 $(server_port 1)" >>"server-$number.conf"
    cat >"sentinel-$number.conf" <<END
bind 127.0.0.1
port $(sentinel_port "$number")
requirepass $(<sentinel-password)
sentinel monitor mymaster 127.0.0.1 $(server_port 1) 2
sentinel auth-pass mymaster $(<password)
sentinel sentinel-pass $(<sentinel-password)
sentinel down-after-milliseconds mymaster 1000
sentinel failover-timeout mymaster 3000
END
  done
  together {server,sentinel}-{1,2,3}
}

ask_sentinel() {
  local number=$1
  shift
  REDISCLI_AUTH=$(<sentinel-password) timeout 2 redis-cli -p "$(sentinel_port "$number")" sentinel "$@"
}

# As most sentinels say.
master() {
  local number
  for number in "${SERVERS[@]}"; do ask_sentinel "$number" get-master-addr-by-name mymaster 2>/dev/null | sed -n 2p; done |
    sort | uniq -c | sort -rn | awk -v first="$(<port)" '$1 > 1 { print $2 - first + 1; exit }'
}

leads() { master | grep .; }

is_replaced() {
  local leader
  leader=$(leads) && [[ $leader != "$1" ]]
}

ask() { ask_server "$(master)" "$@"; }

# Everybody knows everybody, and both replicas have what the master has.
answers() {
  local number
  for number in "${SERVERS[@]}"; do
    [[ $(ask_sentinel "$number" ckquorum mymaster 2>/dev/null) == "OK 3 usable"* ]] || return
  done
  (($(ask info replication 2>/dev/null | grep -c 'state=online') == 2))
}

uri() {
  local number hosts=
  for number in "${SERVERS[@]}"; do hosts+="${hosts:+,}127.0.0.1:$(sentinel_port "$number")"; done
  echo "redis+sentinel://:$(<password)@$hosts/mymaster?sentinel_password=$(<sentinel-password)"
}

several "$@"
