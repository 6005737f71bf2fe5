# What the ZooKeeper services share; sourced, never run. A service may define `more`, further lines of configuration.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

# Debian's jar names those that it needs. What is compiled once is good enough, and a machine has many of these. A member that lost
# the others shows what it has to those who ask for no more. Members that elect a leader and miss a word of each other
# say it again within a second; by themselves they may be silent for a minute. LOCKWRIGHT_ZOOKEEPER_JAVA has further options.
COMMAND=(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dreadonlymode.enabled=true
  -Dzookeeper.fastleader.maxNotificationInterval=1000)
read -ra more_options <<<"${LOCKWRIGHT_ZOOKEEPER_JAVA:-}"
COMMAND+=("${more_options[@]}" -cp "${JARS:-/usr/share/java/zookeeper.jar}" org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg)

# The time by which servers count. Sessions last for two of these at least, so that tests need not wait.
TICK=100

packages() {
  need_apt zookeeper
  need_command java default-jre-headless
}

# Every write is on disk before it is answered, as it comes.
configure() {
  mkdir -p data
  cat >zoo.cfg <<END
tickTime=$TICK
initLimit=100
syncLimit=30
maxSessionTimeout=120000
maxClientCnxns=0
dataDir=$PWD/data
preAllocSize=1024
$(client_port)
admin.enableServer=false
4lw.commands.whitelist=*
$(members)
$(more)
END
}

more() { :; }

# Where clients without TLS come in.
client_port() {
  echo "clientPort=$PORT"
  echo "clientPortAddress=127.0.0.1"
}

# The lines of the members of an ensemble, of which the one with our port is this server.
members() {
  local number=0 client quorum election member
  for member in ${LOCKWRIGHT_ZOOKEEPER_MEMBERS:-}; do
    IFS=: read -r client quorum election <<<"$member"
    number=$((number + 1))
    echo "server.$number=127.0.0.1:$quorum:$election"
    [[ $client != "$PORT" ]] || echo "$number" >data/myid
  done
}

# ask WORD: one of the words of four letters that servers answer, but not always while they start.
ask() {
  local socket
  exec {socket}<>"/dev/tcp/127.0.0.1/$(<port)"
  printf '%s' "$1" >&"$socket"
  timeout 2 cat <&"$socket"
  exec {socket}>&-
}

answers() { (ask srvr 2>/dev/null) 2>/dev/null | grep -q '^Mode: [a-z]*$'; }

uri() { echo "zookeeper://127.0.0.1:$PORT/locks?tick=${TICK}ms"; }

# Whatever is left for a session that has ended; directories without anybody in them go by themselves.
tell_residue() { ask dump | grep -F "$1" || true; }
