#!/usr/bin/env bash
# cluster.sh start|stop|uri: a Redis Cluster for figures, of three masters with a replica each. It persists nothing, so
# that no disk is measured.
. "$(dirname "$0")/../../conformance/services/lib/redis-cluster.sh"

NAME=bench-cluster PORT_ENV=LOCKWRIGHT_BENCH_CLUSTER_PORT PORT_FIRST=7500

configure() { servers </dev/null; }

# All of them, since the replicas work, too.
uri() {
  local number hosts=
  for number in "${SERVERS[@]}"; do hosts+="${hosts:+,}127.0.0.1:$(server_port "$number")"; done
  echo "redis+cluster://$hosts"
}

service "$@"
