#!/usr/bin/env bash
# zookeeper-ensemble.sh start|stop|restart|uri: three ZooKeeper servers, each as zookeeper.sh starts it; prints where locks are kept
# there. `restart` kills one after the other, so that most are there all the time.
# zookeeper-ensemble.sh member N kill|stop|cont: what befalls one of them: kill -9 (and it is started again), SIGSTOP, SIGCONT.
# zookeeper-ensemble.sh leader: the number of the one that leads, once one does.
# zookeeper-ensemble.sh whole: waits until all serve.
. "$(dirname "$0")/lib/zookeeper.sh"

FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/zookeeper-ensemble
FIRST=${LOCKWRIGHT_ZOOKEEPER_ENSEMBLE_PORT:-7581}

# on NUMBER WORD...: has one of them do that.
on() {
  local number=$1
  shift
  LOCKWRIGHT_RUN_DIR=$FOLDER/$number LOCKWRIGHT_ZOOKEEPER_MEMBERS=$(<"$FOLDER/members") \
    LOCKWRIGHT_ZOOKEEPER_PORT=$(port "$number") "$(dirname "$0")/zookeeper.sh" "$@"
}

port() { cut -d' ' -f"$1" "$FOLDER/members" | cut -d: -f1; }

all() {
  local number pids=()
  for number in 1 2 3; do
    on "$number" "$@" >/dev/null &
    pids+=($!)
  done
  for number in "${pids[@]}"; do wait "$number"; done
}

member() {
  local number=$1 pid
  pid=$(<"$FOLDER/$number/zookeeper/pid")
  case $2 in
    kill) on "$number" restart >/dev/null ;;
    stop) kill -STOP "$pid" ;;
    cont) kill -CONT "$pid" ;;
    *) die "say kill, stop or cont" ;;
  esac
}

# mode NUMBER: what one of them is.
mode() { (cd "$FOLDER/$1/zookeeper" && ask srvr | sed -n 's/^Mode: //p') 2>/dev/null; }

# One that was stopped may still believe that it leads.
leads() {
  local number leaders=()
  for number in 1 2 3; do [[ $(mode "$number") != leader ]] || leaders+=("$number"); done
  ((${#leaders[@]} == 1)) && echo "${leaders[0]}"
}

all_serve() {
  local number
  for number in 1 2 3; do [[ $(mode "$number") == @(leader|follower) ]] || return 1; done
}

# Nine ports that nobody has, in one run.
begin() {
  local port=$FIRST at taken=yes
  while [[ $taken ]]; do
    taken=
    for at in {0..8}; do
      if (: <>"/dev/tcp/127.0.0.1/$((port + at))") 2>/dev/null; then taken=yes && port=$((port + 10)) && break; fi
    done
  done
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER"
  for at in 0 3 6; do printf '%d:%d:%d ' $((port + at)) $((port + at + 1)) $((port + at + 2)); done >"$FOLDER/members"
}

case ${1:-} in
  start)
    [[ -f $FOLDER/members ]] || begin
    all start
    ;;
  stop)
    [[ ! -f $FOLDER/members ]] || { all stop && rm -f "$FOLDER/members"; }
    exit
    ;;
  restart) for number in 1 2 3; do on "$number" restart >/dev/null; done ;;
  uri)
    [[ -f $FOLDER/members ]] || die "zookeeper-ensemble is not running"
    # Whoever was killed left the file without the servers.
    for number in 1 2 3; do on "$number" uri >/dev/null; done
    ;;
  member)
    "$@"
    exit
    ;;
  leader)
    wait_until leads
    exit
    ;;
  whole)
    wait_until all_serve >/dev/null
    exit
    ;;
  # The others know nothing of sessions.
  residue)
    shift
    on "$(wait_until leads)" residue "$@"
    exit
    ;;
  *) die "say start (with empty data), stop, restart or uri" ;;
esac
echo "zookeeper://127.0.0.1:$(port 1),127.0.0.1:$(port 2),127.0.0.1:$(port 3)/locks?tick=100ms"
