# What the ZooKeeper services share; sourced, never run. They define `members`, the lines of configuration for the others, if any.
. "$(dirname "${BASH_SOURCE[0]}")/service.sh"

# Debian's jar names those that it needs. What is compiled once is good enough, and a machine has many of these.
COMMAND=(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp /usr/share/java/zookeeper.jar
  org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg)

# The time by which servers count. Sessions last for two of these at least, so that tests need not wait.
TICK=100

packages() {
  need_apt zookeeper
  need_command java default-jre-headless
}

# Every write is on disk before it is answered, as it comes.
configure() {
  cat >zoo.cfg <<END
tickTime=$TICK
initLimit=100
syncLimit=30
maxSessionTimeout=120000
maxClientCnxns=0
dataDir=$PWD/data
preAllocSize=1024
clientPort=$PORT
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=*
$(members)
END
  mkdir -p data
}

members() { :; }

# ask WORD: one of the words of four letters that servers answer, but not always while they start.
ask() {
  local socket
  exec {socket}<>"/dev/tcp/127.0.0.1/$PORT"
  printf '%s' "$1" >&"$socket"
  timeout 2 cat <&"$socket"
  exec {socket}>&-
}

answers() { (ask srvr 2>/dev/null) 2>/dev/null | grep -q '^Mode: [a-z]*$'; }

uri() { echo "zookeeper://127.0.0.1:$PORT/locks?tick=${TICK}ms"; }

# Whatever is left for a session that has ended; directories without anybody in them go by themselves.
tell_residue() { ask dump | grep -F "$1" || true; }
