#!/usr/bin/env bash
# etcd-cluster.sh start|stop|restart|uri: a cluster of three members.
# etcd-cluster.sh member N kill|down|up|stop|cont: what befalls one of them: kill -9 (and it is started again), the same for
#   good, started again, SIGSTOP, SIGCONT.
# etcd-cluster.sh leader: the number of the member that leads, once one does.
# etcd-cluster.sh whole: waits until all members serve.
# LOCKWRIGHT_ETCD_PEERS has the ports at which the members find one another, where a test stands before their own, and
#   LOCKWRIGHT_ETCD_ELECTION for how many milliseconds a leader is believed in that says nothing (1000).
. "$(dirname "$0")/lib/etcd.sh"

NAME=etcd-cluster PORT_ENV=LOCKWRIGHT_ETCD_CLUSTER_PORT PORT_FIRST=8384
COMMAND=(bash run.sh)
MEMBERS=(1 2 3)

packages() {
  need_etcd
  need_command setpriv util-linux
}

# Members serve at every second port from the first one on, and talk at those between.
client_port() { echo $(($(<port) + 2 * ($1 - 1))); }
peer_port() { echo $(($(client_port "$1") + 1)); }

configure() {
  local member cluster= host=http://127.0.0.1 found
  read -ra found <<<"${LOCKWRIGHT_ETCD_PEERS:-$(peer_port 1) $(peer_port 2) $(peer_port 3)}"
  for member in "${MEMBERS[@]}"; do cluster+="${cluster:+,}m$member=$host:${found[member - 1]}"; done
  for member in "${MEMBERS[@]}"; do
    member_settings "m$member" "$host:$(client_port "$member")" "$host:$(peer_port "$member")" "$cluster" \
      "$host:${found[member - 1]}" >"$member.yml"
  done
  # Nobody outlives whoever started it, so that the cluster ends with the process that this service is.
  cat >run.sh <<'END'
alive() {
  while :; do
    while [[ -e $1.down ]]; do sleep 0.05; done
    setpriv --pdeathsig KILL etcd --config-file "$1.yml" >>"log-$1" 2>&1 &
    echo $! >"$1.pid"
    wait $! || sleep 0.05
  done
}
if [[ $# == 1 ]]; then
  alive "$1"
else
  for member in 1 2 3; do setpriv --pdeathsig KILL bash run.sh "$member" & done
  wait
fi
END
}

endpoints() {
  local member all=
  for member in "${MEMBERS[@]}"; do all+="${all:+,}127.0.0.1:$(client_port "$member")"; done
  echo "$all"
}

member() {
  local number=$1 pid
  pid=$(<"$number.pid")
  case $2 in
    kill) kill -KILL "$pid" ;;
    down) touch "$number.down" && kill -KILL "$pid" ;;
    up) rm -f "$number.down" ;;
    stop) kill -STOP "$pid" ;;
    cont) kill -CONT "$pid" ;;
    *) die "say kill, down, up, stop or cont" ;;
  esac
}

# Whoever does not answer does not lead. Two do for a moment.
leads() {
  local told
  told=$(ask endpoint status -w json 2>/dev/null | PORT=$(<port) python3 -c '
import json, os, sys
for one in json.load(sys.stdin):
    if one["Status"]["leader"] == one["Status"]["header"]["member_id"]:
        print((int(one["Endpoint"].rsplit(":", 1)[1]) - int(os.environ["PORT"])) // 2 + 1)' 2>/dev/null) || true
  [[ $told == [1-3] ]] && echo "$told"
}

leader() { wait_until leads; }

whole() { wait_until answers >/dev/null; }

# Once all who held something are gone and their leases over, nothing is left.
tell_residue() { ask get '' --prefix --keys-only | grep -F "$1" || true; }

case ${1:-} in
  member | leader | whole)
    FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/$NAME
    running || die "$NAME is not running"
    cd "$FOLDER"
    "$@"
    ;;
  *) service "$@" ;;
esac
