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

answers() { [[ $(redis-cli -s socket ping 2>/dev/null) == PONG ]]; }
