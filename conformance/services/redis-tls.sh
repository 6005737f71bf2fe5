#!/usr/bin/env bash
# redis-tls.sh start|stop|restart|uri: as redis.sh, with certificates on both sides and a user of few rights.
. "$(dirname "$0")/lib/redis.sh"

NAME=redis-tls PORT_ENV=LOCKWRIGHT_REDIS_TLS_PORT PORT_FIRST=7380

listen() {
  need_command openssl openssl
  certificate ca Lockwright -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign
  local end=(-CA ca.crt -CAkey ca.key -addext basicConstraints=critical,CA:FALSE)
  certificate server localhost "${end[@]}" -addext subjectAltName=DNS:localhost,IP:127.0.0.1
  certificate client lockwright "${end[@]}" -addext extendedKeyUsage=clientAuth

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

# certificate FILE NAME EXTENSION...: without the machine's openssl.cnf, whose extensions would contradict ours.
certificate() {
  local file=$1 name=$2
  shift 2
  openssl req -x509 -config <(printf '[req]\ndistinguished_name=name\n[name]\n') -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
    -noenc -days 30 -subj "/CN=$name" -keyout "$file.key" -out "$file.crt" "$@" 2>>log
}

ask() { REDISCLI_AUTH=$(<admin) redis-cli -s socket "$@"; }

uri() {
  echo "rediss://lockwright:$(<password)@127.0.0.1:$PORT?ca=$FOLDER/ca.crt&cert=$FOLDER/client.crt&key=$FOLDER/client.key"
}

service "$@"
