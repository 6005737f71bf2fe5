#!/usr/bin/env bash
# etcd-tls.sh start|stop|restart|uri: as etcd.sh, with certificates on both sides and a user of few rights, whose tokens last
# for 3 s.
. "$(dirname "$0")/lib/service.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=etcd-tls PORT_ENV=LOCKWRIGHT_ETCD_TLS_PORT PORT_FIRST=8382
COMMAND=(etcd --config-file etcd.yml)

packages() {
  need_command etcd etcd-server
  need_command etcdctl etcd-client
}

configure() {
  local peers
  peers=$(free_port $((PORT + 1)))
  certificates
  # What signs tokens. Of no use outside this folder, as the passwords.
  openssl genrsa -out token.key 2048 2>>log
  openssl rsa -in token.key -pubout -out token.pub 2>>log
  openssl rand -hex 16 >admin
  openssl rand -hex 16 >password
  cat >etcd.yml <<END
name: alone
data-dir: data
listen-client-urls: https://127.0.0.1:$PORT
advertise-client-urls: https://127.0.0.1:$PORT
listen-peer-urls: http://127.0.0.1:$peers
initial-advertise-peer-urls: http://127.0.0.1:$peers
initial-cluster: alone=http://127.0.0.1:$peers
auth-token: jwt,pub-key=token.pub,priv-key=token.key,sign-method=RS256,ttl=3s
client-transport-security:
  cert-file: server.crt
  key-file: server.key
  client-cert-auth: true
  trusted-ca-file: ca.crt
log-level: warn
END
}

ask() {
  ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$PORT" --dial-timeout 2s --cacert ca.crt --cert client.crt --key client.key "$@"
}

# Users are made once; whoever is asked without one afterwards says so, and serves.
answers() {
  if [[ -e ready ]]; then
    ask --user "root:$(<admin)" endpoint health &>/dev/null
  else
    ask endpoint health &>/dev/null && rights >>log 2>&1 && touch ready
  fi
}

rights() {
  ask user add "root:$(<admin)"
  ask user grant-role root root
  ask user add "lockwright:$(<password)"
  ask role add locks
  ask role grant-permission --prefix=true locks readwrite app/
  ask user grant-role lockwright locks
  ask auth enable
}

uri() {
  echo "etcds://lockwright:$(<password)@127.0.0.1:$PORT?prefix=app/&ca=$FOLDER/ca.crt&cert=$FOLDER/client.crt&key=$FOLDER/client.key"
}

service "$@"
