#!/usr/bin/env bash
# etcd-tls.sh start|stop|restart|uri: as etcd.sh, with certificates on both sides and a user of few rights, whose tokens last
# for 3 s.
. "$(dirname "$0")/lib/etcd.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=etcd-tls PORT_ENV=LOCKWRIGHT_ETCD_TLS_PORT PORT_FIRST=8382
CREDENTIALS=(--cacert ca.crt --cert client.crt --key client.key)

configure() {
  certificates
  # What signs tokens. Of no use outside this folder, as the passwords.
  openssl genrsa -out token.key 2048 2>>log
  openssl rsa -in token.key -pubout -out token.pub 2>>log
  openssl rand -hex 16 >admin
  openssl rand -hex 16 >password
  settings_alone https >etcd.yml
  cat >>etcd.yml <<END
auth-token: jwt,pub-key=token.pub,priv-key=token.key,sign-method=RS256,ttl=3s
client-transport-security:
  cert-file: server.crt
  key-file: server.key
  client-cert-auth: true
  trusted-ca-file: ca.crt
END
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
