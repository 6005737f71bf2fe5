# What services of several Redis servers share; sourced, never run. Server N is configured by `server-N.conf`.
. "$(dirname "${BASH_SOURCE[0]}")/redis.sh"

COMMAND=(bash run.sh)

packages() {
  need_command redis-server redis-server
  need_command redis-sentinel redis-sentinel
  need_command redis-cli redis-tools
  need_command setpriv util-linux
}

server_port() { echo $(($(<port) + $1 - 1)); }

secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# configure_server NUMBER <LINES: by these lines, beside what all of them have; and makes its folder.
configure_server() {
  mkdir "data-$1"
  {
    printf '%s\n' 'bind 127.0.0.1' "port $(server_port "$1")" "dir data-$1" 'save ""'
    printf '%s\n' 'repl-diskless-sync yes' 'repl-diskless-sync-delay 0'
    cat
  } >"server-$1.conf"
}

# with_password COMMAND...: with that of the servers, where they have one.
with_password() {
  [[ ! -f password ]] || local -x REDISCLI_AUTH=$(<password)
  "$@"
}

# ask_server NUMBER COMMAND...
ask_server() {
  local number=$1
  shift
  with_password timeout 2 redis-cli -p "$(server_port "$number")" "$@"
}

# together NAME...: what COMMAND runs, each `KIND-N` by redis-KIND. Nobody outlives whoever started it, so that all end with the
# process that this service is.
together() {
  printf '%s\n' "$@" >all
  cat >run.sh <<'END'
alive() {
  while :; do
    while [[ -e $1.down ]]; do sleep 0.05; done
    setpriv --pdeathsig KILL "redis-${1%-*}" "$1.conf" >>"log-$1" 2>&1 &
    echo $! >"$1.pid"
    wait $! || sleep 0.05
  done
}
if [[ $# == 1 ]]; then
  alive "$1"
else
  while read -r one; do setpriv --pdeathsig KILL bash run.sh "$one" & done <all
  wait
fi
END
}

server() {
  local number=$1 pid
  pid=$(<"server-$number.pid")
  case $2 in
    kill) kill -KILL "$pid" ;;
    down) touch "server-$number.down" && kill -KILL "$pid" ;;
    up) rm -f "server-$number.down" ;;
    stop) kill -STOP "$pid" ;;
    # One that is down, or was just started again, need not be told.
    cont) kill -CONT "$pid" 2>/dev/null || true ;;
    *) die "say kill, down, up, stop or cont" ;;
  esac
}

# member NUMBER kill|stop|cont: as `server`, but that a master which is killed comes back once another one has its place.
member() {
  local number=$1 role
  [[ $2 == kill ]] || { server "$@" && return; }
  role=$(ask_server "$number" role | head -n 1)
  server "$number" down
  [[ $role != master ]] || wait_until is_replaced "$number" >/dev/null
  server "$number" up
}

leader() { wait_until leads "$@"; }

whole() { wait_until answers >/dev/null; }

# several COMMAND...: one of this service's own words, else one of every service's.
several() {
  case ${1:-} in
    server | master | member | leader | move | whole)
      FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/$NAME
      running || die "$NAME is not running"
      cd "$FOLDER"
      "$@"
      ;;
    *) service "$@" ;;
  esac
}
