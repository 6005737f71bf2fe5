#!/usr/bin/env bash
# redis-string.sh start|stop|restart|uri: as redis.sh, for locks in the layout that redis-py keeps.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-string PORT_ENV=LOCKWRIGHT_REDIS_STRING_PORT PORT_FIRST=7381

listen() { echo "port $PORT"; }

uri() { echo "redis://127.0.0.1:$PORT?layout=string&format=redis-py"; }

tell_foreign() { ask hset "$1" 'something' else >/dev/null; ask expire "$1" 600 >/dev/null; }

service "$@"
