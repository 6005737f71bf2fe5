#!/usr/bin/env bash
# redis-redisson.sh start|stop|restart|uri: as redis.sh, for locks in the layout that Redisson keeps.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-redisson PORT_ENV=LOCKWRIGHT_REDIS_REDISSON_PORT PORT_FIRST=7387

listen() { echo "port $PORT"; }

uri() { echo "redis://127.0.0.1:$PORT?layout=redisson"; }

tell_foreign() { ask set "$1" 'something else' EX 600 >/dev/null; }

has_redisson

service "$@"
