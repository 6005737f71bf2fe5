# What services share that are five Redis servers, each as `redis.sh` beside the service starts it, which together are
# one place; sourced, never run. A service sets
#   NAME      its folder under conformance/.run
#   PORT_ENV  the variable of `redis.sh` that fixes a server's port, and FIRST, from which ports are counted
#   MAX_TTL   the longest lease that its users may ask for, in seconds
#   OPTIONS   what stands behind the last address
# and ends with `quorum "$@"`, which prints the addresses with a space between them.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

NODES=(1 2 3 4 5)

# on NUMBER WORD...: has one of them do that.
on() {
  local number=$1
  shift
  env LOCKWRIGHT_RUN_DIR="$FOLDER/$number" "$PORT_ENV=${PORT:-}" "$(dirname "$0")/redis.sh" "$@"
}

# A server that was just made has granted nothing, and one that kept its data has forgotten nothing: so its marker is an
# old one. That it would count later without is tested in core/tests/quorum_redis.rs.
age() {
  local cli run
  cli=(redis-cli -u "$(on "$1" uri)")
  run=$("${cli[@]}" info server | tr -d '\r' | sed -n 's/^run_id://p')
  "${cli[@]}" set 'lwq:{}' "$run ${MAX_TTL}000000 $(($(date +%s) - 2 * MAX_TTL))000000" >/dev/null
}

# All of them at once.
all() {
  local number pids=()
  for number in "${NODES[@]}"; do
    on "$number" "$@" >/dev/null &
    pids+=($!)
  done
  for number in "${pids[@]}"; do wait "$number"; done
}

quorum() {
  local number sum=0 uris=()
  FOLDER=${LOCKWRIGHT_RUN_DIR:-$ROOT/conformance/.run}/$NAME
  case ${1:-} in
    start)
      mkdir -p "$FOLDER"
      # One after the other: each takes the next port that nobody has.
      for number in "${NODES[@]}"; do PORT=$(free_port $((FIRST + number))) on "$number" start >/dev/null; done
      for number in "${NODES[@]}"; do age "$number"; done
      ;;
    stop)
      [[ ! -d $FOLDER ]] || all stop
      return
      ;;
    restart)
      for number in "${NODES[@]}"; do
        on "$number" restart >/dev/null
        age "$number"
      done
      ;;
    uri) ;;
    requests)
      for number in "${NODES[@]}"; do sum=$((sum + $(on "$number" requests))); done
      echo "$sum"
      return
      ;;
    foreign | residue)
      for number in "${NODES[@]}"; do on "$number" "$@"; done
      return
      ;;
    *) die "say start (with empty data), stop, restart or uri" ;;
  esac
  for number in "${NODES[@]}"; do uris+=("$(on "$number" uri)"); done
  echo "${uris[*]}${OPTIONS:+?$OPTIONS}"
}
