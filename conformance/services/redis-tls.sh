#!/usr/bin/env bash
# redis-tls.sh start|stop|restart|uri: as redis.sh, with certificates on both sides and a user of few rights.
. "$(dirname "$0")/lib/redis.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=redis-tls PORT_ENV=LOCKWRIGHT_REDIS_TLS_PORT PORT_FIRST=7380

listen() {
  certificates

  # Of no use outside this folder, and still no password that a scanner would find in the tree.
  openssl rand -hex 16 >admin
  openssl rand -hex 16 >password
  cat >users.acl <<END
user default on >$(<admin) ~* &* +@all
user lockwright on >$(<password) ~lw:* &lwi:* +@all -@dangerous
END
  cat <<END
port 0
tls-port $PORT
tls-ca-cert-file ca.crt
tls-cert-file server.crt
tls-key-file server.key
tls-auth-clients yes
aclfile users.acl
END
}

ask() { REDISCLI_AUTH=$(<admin) redis-cli -s socket "$@"; }

uri() {
  echo "rediss://lockwright:$(<password)@127.0.0.1:$PORT?ca=$FOLDER/ca.crt&cert=$FOLDER/client.crt&key=$FOLDER/client.key"
}

service "$@"
