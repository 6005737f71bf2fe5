# What the Redis services share; sourced, never run. They define `listen`: writes what only this one needs and prints its lines
# of configuration.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

COMMAND=(redis-server redis.conf)

packages() {
  need_command redis-server redis-server
  need_command redis-cli redis-tools
}

# Every write is on disk before it is answered: a server killed and restarted still knows who holds what.
configure() {
  cat >redis.conf <<END
bind 127.0.0.1
unixsocket socket
unixsocketperm 700
save ""
appendonly yes
appendfsync always
END
  listen >>redis.conf
}

# ask COMMAND...: as a user who may do everything.
ask() { redis-cli -s socket "$@"; }

answers() { [[ $(ask ping 2>/dev/null) == PONG ]]; }

# Locks are scripts; what these call inside is counted under other names.
tell_requests() {
  ask info commandstats | awk -F '[:=,]' '/^cmdstat_(eval|evalsha|fcall):/ { sum += $3 } END { print sum + 0 }'
}

tell_foreign() { ask set "lw:{$1}" 'something else' EX 600 >/dev/null; }

tell_residue() {
  local script='local left = {}
    for _, key in ipairs(redis.call("KEYS", "*" .. ARGV[1] .. "*")) do
      if redis.call("PTTL", key) == -1 then left[#left + 1] = key .. " " .. redis.call("TYPE", key).ok end
    end
    return left'
  ask eval "$script" 0 "$1" | awk 'NF'
}

# has_redisson: its locks lie there too. Its fenced ones count in a key that never goes, and a semaphore is one.
has_redisson() {
  eval "all_$(declare -f tell_residue)"
  tell_residue() { all_tell_residue "$1" | awk '$2 != "string" || /^lw/'; }
}
