#!/usr/bin/env bash
# quorum.sh start|stop|uri: five servers, each as redis.sh starts it, that together are one place; prints their
# addresses with a space between them.
. "$(dirname "$0")/../../conformance/services/lib/quorum.sh"

# The longest lease is that of a client without options.
NAME=bench-quorum PORT_ENV=LOCKWRIGHT_BENCH_REDIS_PORT FIRST=${LOCKWRIGHT_BENCH_QUORUM_PORT:-7490} MAX_TTL=60 OPTIONS=

quorum "$@"
