#!/usr/bin/env bash
# redis-spring-spin.sh start|stop|restart|uri: as redis.sh, for locks in the layout that Spring's RedisLockRegistry keeps, format spin.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-spring-spin PORT_ENV=LOCKWRIGHT_REDIS_SPRING_SPIN_PORT PORT_FIRST=7389

listen() { echo "port $PORT"; }

uri() { echo "redis://127.0.0.1:$PORT?layout=spring&format=spin&prefix=registry:"; }

tell_foreign() { ask hset "registry:$1" 'something' else >/dev/null; ask expire "registry:$1" 600 >/dev/null; }

service "$@"
