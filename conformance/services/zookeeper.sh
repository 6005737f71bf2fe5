#!/usr/bin/env bash
# zookeeper.sh start|stop|restart|uri: one ZooKeeper server; prints where locks are kept there.
. "$(dirname "$0")/lib/zookeeper.sh"

NAME=zookeeper PORT_ENV=LOCKWRIGHT_ZOOKEEPER_PORT PORT_FIRST=7381

service "$@"
