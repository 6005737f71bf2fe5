#!/usr/bin/env bash
# zookeeper-tls.sh start|stop|restart|uri: as zookeeper.sh, with certificates on both sides, and a user who logs in by SASL.
LOCKWRIGHT_ZOOKEEPER_JAVA="${LOCKWRIGHT_ZOOKEEPER_JAVA:-} -Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
  -Djava.security.auth.login.config=jaas.conf"
LOCKWRIGHT_ZOOKEEPER_JAVA=${LOCKWRIGHT_ZOOKEEPER_JAVA//$'\n'/ }
# Debian's jar does not name this one, which TLS needs.
JARS=/usr/share/java/netty-codec.jar:/usr/share/java/zookeeper.jar
. "$(dirname "$0")/lib/zookeeper.sh"
. "$(dirname "$0")/lib/certificates.sh"

NAME=zookeeper-tls PORT_ENV=LOCKWRIGHT_ZOOKEEPER_TLS_PORT PORT_FIRST=7383

client_port() { :; }

more() {
  certificates
  cat server.key server.crt >server.pem
  # Of no use outside this folder, and still no password that a scanner would find in the tree.
  openssl rand -hex 16 >password
  cat >jaas.conf <<END
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_lockwright="$(<password)"; };
END
  cat <<END
secureClientPort=$PORT
secureClientPortAddress=127.0.0.1
ssl.keyStore.location=$PWD/server.pem
ssl.keyStore.type=PEM
ssl.trustStore.location=$PWD/ca.crt
ssl.trustStore.type=PEM
ssl.clientAuth=need
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
END
}

# Under Netty, without which there is no TLS, this server says nothing to words of four letters.
answers() {
  openssl s_client -connect "127.0.0.1:$(<port)" -CAfile ca.crt -cert client.crt -key client.key </dev/null &>/dev/null
}

tell_residue() { :; }

uri() {
  local files="ca=$FOLDER/ca.crt&cert=$FOLDER/client.crt&key=$FOLDER/client.key"
  echo "zookeepers://lockwright:$(<password)@127.0.0.1:$PORT/locks?tick=${TICK}ms&login=digest-md5&$files"
}

service "$@"
