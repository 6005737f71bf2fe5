# What the etcd services share; sourced, never run. A service may have CREDENTIALS, what etcdctl needs to be let in, and defines
# `endpoints` or `packages` again if it has several or needs more.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

COMMAND=(etcd --config-file etcd.yml)
CREDENTIALS=()

need_etcd() {
  need_command etcd etcd-server
  need_command etcdctl etcd-client
}

packages() { need_etcd; }

# member_settings NAME CLIENTS PEERS CLUSTER [FOUND]: the configuration of the member that serves at the URL CLIENTS and meets the
# others, of whom CLUSTER is the list, at the URL PEERS; where something stands before that, they find it at the URL FOUND.
member_settings() {
  cat <<END
name: $1
data-dir: data-$1
listen-client-urls: $2
advertise-client-urls: $2
listen-peer-urls: $3
initial-advertise-peer-urls: ${5:-$3}
initial-cluster: $4
initial-cluster-token: $NAME-$PORT
election-timeout: ${LOCKWRIGHT_ETCD_ELECTION:-1000}
log-level: warn
# It is there, unless settings come from a file.
enable-grpc-gateway: true
END
}

# settings_alone SCHEME: the configuration of a cluster of one. It meets nobody, but does not start without a port for that, and the
# one beside that of the clients may be taken.
settings_alone() {
  local peers
  peers=http://127.0.0.1:$(free_port $((PORT + 1)))
  member_settings alone "$1://127.0.0.1:$PORT" "$peers" "alone=$peers"
}

endpoints() { echo "127.0.0.1:$(<port)"; }

ask() { ETCDCTL_API=3 etcdctl --endpoints "$(endpoints)" --dial-timeout 2s "${CREDENTIALS[@]}" "$@"; }

answers() { ask endpoint health &>/dev/null; }

uri() { echo "etcd://$(endpoints)"; }
