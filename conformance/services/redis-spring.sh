#!/usr/bin/env bash
# redis-spring.sh start|stop|restart|uri: as redis.sh, for locks in the layout that Spring's RedisLockRegistry keeps, format pub-sub.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-spring PORT_ENV=LOCKWRIGHT_REDIS_SPRING_PORT PORT_FIRST=7388

listen() { echo "port $PORT"; }

uri() { echo "redis://127.0.0.1:$PORT?layout=spring&format=pub-sub&prefix=registry:"; }

tell_foreign() { ask hset "registry:$1" 'something' else >/dev/null; ask expire "registry:$1" 600 >/dev/null; }

service "$@"
