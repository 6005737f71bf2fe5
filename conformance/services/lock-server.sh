#!/usr/bin/env bash
# lock-server.sh start|stop|restart|uri: a lock server in a Durable Object, in a workerd that lets everybody reach it. The name in its
# address is the port at which it takes WebSockets.
. "$(dirname "$0")/lib/service.sh"

NAME=lock-server PORT_ENV=LOCKWRIGHT_LOCK_SERVER_PORT PORT_FIRST=8611
COMMAND=(bash run)

packages() {
  need_command curl curl
  [[ -d $ROOT/bindings-wasm/npm/dist ]] || die "$NAME runs the npm WASM package, which is not built: run scripts/wasm"
  npm_packages "$ROOT/bindings-wasm/tests/tools"
}

configure() {
  echo "exec $(node "$ROOT/conformance/services/lib/lock-server.mjs" "$PWD" "$PORT") serve config.capnp" >run
}

ask() { curl --silent "${@:2}" "http://127.0.0.1:$(<port)$1"; }

# It wants a WebSocket.
answers() { [[ $(ask / --output /dev/null --write-out '%{http_code}') == 426 ]]; }

uri() { echo "lockwright://$PORT"; }

tell_foreign() { ask "/foreign?key=$1" --fail; }

tell_residue() { ask "/residue?part=$1" --fail; }

service "$@"
