#!/usr/bin/env bash
# etcd.sh start|stop|restart|uri: one etcd.
. "$(dirname "$0")/lib/etcd.sh"

NAME=etcd PORT_ENV=LOCKWRIGHT_ETCD_PORT PORT_FIRST=8379

configure() { settings_alone http >etcd.yml; }

# Every transaction is counted, and every read outside one; what keeps leases alive is not.
tell_requests() {
  local metrics=http://127.0.0.1:$(<port)/metrics
  curl -sf "$metrics" | awk '
    /^grpc_server_handled_total\{.*grpc_method="(Txn|Range|Put|DeleteRange)"/ { sum += $2 }
    END { print sum + 0 }'
}

tell_foreign() { ask put "$1/note" 'something else' >/dev/null; }

# Keys that no lease keeps, but for what was put in the way; leases of nobody end with their time.
tell_residue() {
  ask get '' --prefix -w json | python3 -c '
import base64, json, sys
for kv in json.load(sys.stdin).get("kvs", []):
    key = base64.b64decode(kv["key"]).decode()
    if sys.argv[1] in key and not kv.get("lease") and not key.endswith("/note"):
        print(key)' "$1"
}

service "$@"
