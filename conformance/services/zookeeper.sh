#!/usr/bin/env bash
# zookeeper.sh start|stop|restart|uri: one ZooKeeper server; prints where locks are kept there. With LOCKWRIGHT_ZOOKEEPER_MEMBERS,
# which has `client:quorum:election` ports of each, it is the one of them that takes its port, and answers once most are there.
. "$(dirname "$0")/lib/zookeeper.sh"

NAME=zookeeper PORT_ENV=LOCKWRIGHT_ZOOKEEPER_PORT PORT_FIRST=7381

service "$@"
