# What services share that are a Redis Cluster of three masters with a replica each; sourced, never run. Their
# `configure` calls `servers`.
. "$(dirname "${BASH_SOURCE[0]}")/redis-servers.sh"

SERVERS=(1 2 3 4 5 6)

# servers <LINES: configures all of them, by these lines beside what makes them a cluster.
servers() {
  local number lines
  lines=$(cat)
  for number in "${SERVERS[@]}"; do
    configure_server "$number" <<END
cluster-enabled yes
cluster-config-file nodes.conf
cluster-allow-replica-migration no
$lines
END
  done
  together server-{1..6}
}

# Made at the first start, as soon as all are there; later a cluster is good once every node says so, and every master
# has its replica.
answers() {
  local number replication nodes=()
  for number in "${SERVERS[@]}"; do
    [[ $(ask_server "$number" ping 2>/dev/null) == PONG ]] || return
    nodes+=("127.0.0.1:$(server_port "$number")")
  done
  if [[ ! -e made ]]; then
    with_password redis-cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >made-log 2>&1 || return
    touch made
  fi
  for number in "${SERVERS[@]}"; do
    [[ $(ask_server "$number" cluster info 2>/dev/null) == *cluster_state:ok* ]] || return
    replication=$(ask_server "$number" info replication)
    [[ $replication == *role:master*connected_slaves:1*state=online* || $replication == *master_link_status:up* ]] ||
      return
  done
}
