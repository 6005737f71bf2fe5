#!/usr/bin/env bash
# redis.sh start|stop|restart|uri [socket]: prints the server's URI, with `socket` that of its unix socket.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis PORT_ENV=LOCKWRIGHT_REDIS_PORT PORT_FIRST=7379

listen() { echo "port $PORT"; }

uri() {
  case ${1:-} in
    socket) echo "redis+unix://$FOLDER/socket" ;;
    *) echo "redis://127.0.0.1:$PORT" ;;
  esac
}

service "$@"
