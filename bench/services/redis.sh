#!/usr/bin/env bash
# redis.sh start|stop|uri: a server for figures. It persists nothing, so that no disk is measured.
. "$(dirname "$0")/../../conformance/services/lib/redis.sh"

NAME=bench-redis PORT_ENV=LOCKWRIGHT_BENCH_REDIS_PORT PORT_FIRST=7479

configure() {
  cat >redis.conf <<END
bind 127.0.0.1
port $PORT
unixsocket socket
unixsocketperm 700
save ""
appendonly no
END
}

uri() { echo "redis://127.0.0.1:$PORT"; }

service "$@"
