# What every service script shares; sourced, never run. A service is one server process, loopback only, with everything it
# writes in its own folder. Its script sets
#   NAME       its folder under conformance/.run
#   PORT_ENV   the variable that fixes its port, and PORT_FIRST, the port to try first without that variable
#   COMMAND    what to execute there, in the foreground
# defines
#   packages   Installs what it needs.
#   configure  Writes its files into the current folder.
#   answers    Succeeds once it serves requests.
#   uri        Prints where it serves.
# and ends with `service "$@"`. What the conformance scenarios ask of a server are functions too, missing where there is no
# answer (and then stores.toml says why):
#   tell_requests      Prints how many requests concerning locks it has served.
#   tell_foreign NAME  Puts something of another kind where the lock would lie.
#   tell_residue PART  Prints what lies there for locks with PART in their names and would never go away by itself.
. "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

service() {
  local command=${1:-}
  shift || true
  FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/$NAME
  case $command in
    start) running || begin ;;
    stop) ! running || quit; return ;;
    restart) restart ;;
    uri) running || die "$NAME is not running" ;;
    requests | foreign | residue)
      running || die "$NAME is not running"
      cd "$FOLDER"
      "tell_$command" "$@"
      return
      ;;
    *) die "say start (with empty data), stop, restart (kill -9, then start on the same data) or uri" ;;
  esac
  PORT=$(<"$FOLDER/port")
  cd "$FOLDER"
  until_answers
  settle
  uri "$@"
}

restart() {
  ! running || halt KILL
  launch
}

# What is to be done once it answers; a service may define more.
settle() { :; }

# A pid alone may since belong to somebody else; only our server works in our folder.
running() { [[ -f $FOLDER/pid && /proc/$(<"$FOLDER/pid")/cwd -ef $FOLDER ]]; }

begin() {
  packages
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER"
  PORT=${!PORT_ENV:-$(free_port "$PORT_FIRST")}
  echo "$PORT" >"$FOLDER/port"
  (cd "$FOLDER" && configure)
  launch
}

# Several trees on one machine each test with their own server.
free_port() {
  local port=$1
  while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
  echo "$port"
}

# In a session of its own, so that Ctrl-C on the tests leaves the server to the one who must stop it.
launch() {
  (cd "$FOLDER" && exec setsid "${COMMAND[@]}" </dev/null >>log 2>&1) &
  echo $! >"$FOLDER/pid"
}

# For how many seconds a server or a cluster is waited for, on a machine that is slow.
PATIENCE=120

until_answers() {
  local deadline=$((SECONDS + PATIENCE))
  until answers; do
    if ((SECONDS > deadline)) || ! kill -0 "$(<pid)" 2>/dev/null; then
      tail log >&2
      die "$NAME does not answer on port $PORT"
    fi
    sleep 0.05
  done
}

# wait_until COMMAND...: for so long at most, until it succeeds; what it says then.
wait_until() {
  local deadline=$((SECONDS + PATIENCE)) said
  until said=$("$@"); do
    ((SECONDS <= deadline)) || die "not for $PATIENCE s: $*"
    sleep 0.05
  done
  echo "$said"
}

quit() { halt TERM || halt KILL; }

# A killed server keeps its port until its last thread is through, and one of them may wait for the disk.
has_threads() { (($(ls "/proc/$1/task" 2>/dev/null | wc -l) > 1)); }

# halt SIGNAL: fails when the server is still there after 10 s.
halt() {
  local deadline=$((SECONDS + 10)) pid
  pid=$(<"$FOLDER/pid")
  kill "-$1" "$pid" 2>/dev/null || true
  while running || has_threads "$pid"; do
    ((SECONDS <= deadline)) || return 1
    sleep 0.05
  done
}
