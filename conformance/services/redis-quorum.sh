#!/usr/bin/env bash
# redis-quorum.sh start|stop|restart|uri: five servers, each as redis.sh starts it, that together are one place; prints
# their addresses with a space between them. `restart` kills one after the other; they keep their data, and so count at
# once.
# LOCKWRIGHT_QUORUM_OPTIONS is what stands behind the last address.
. "$(dirname "$0")/lib/quorum.sh"

NAME=redis-quorum PORT_ENV=LOCKWRIGHT_REDIS_PORT FIRST=${LOCKWRIGHT_REDIS_QUORUM_PORT:-7401} MAX_TTL=30
OPTIONS=${LOCKWRIGHT_QUORUM_OPTIONS-max_ttl=30s&node_timeout=250ms&ttl=2s}

quorum "$@"
