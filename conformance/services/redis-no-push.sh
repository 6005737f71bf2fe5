#!/usr/bin/env bash
# redis-no-push.sh start|stop|restart|uri: as redis.sh, with a user who may not subscribe.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-no-push PORT_ENV=LOCKWRIGHT_REDIS_NO_PUSH_PORT PORT_FIRST=7382

listen() {
  # Of no use outside this folder, and still no password that a scanner would find in the tree.
  openssl rand -hex 16 >password
  cat <<END
port $PORT
user default on nopass ~* &* +@all
user lockwright on >$(<password) ~lw:* resetchannels +@all -@dangerous
END
}

uri() { echo "redis://lockwright:$(<password)@127.0.0.1:$PORT"; }

service "$@"
