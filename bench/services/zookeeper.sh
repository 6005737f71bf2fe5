#!/usr/bin/env bash
# zookeeper.sh start|stop|uri: a server for figures, as it is installed: what it answers is on disk, and its code is compiled as
# that of a server is which runs for long.
. "$(dirname "$0")/../../conformance/services/lib/zookeeper.sh"

NAME=bench-zookeeper PORT_ENV=LOCKWRIGHT_BENCH_ZOOKEEPER_PORT PORT_FIRST=7481
COMMAND=(java -Xmx1g -XX:+UseSerialGC -cp /usr/share/java/zookeeper.jar org.apache.zookeeper.server.quorum.QuorumPeerMain zoo.cfg)
TICK=2000

service "$@"
