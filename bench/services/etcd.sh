#!/usr/bin/env bash
# etcd.sh start|stop|uri: a server for figures, as it is installed: what it answers is on disk.
. "$(dirname "$0")/../../conformance/services/lib/etcd.sh"

NAME=bench-etcd PORT_ENV=LOCKWRIGHT_BENCH_ETCD_PORT PORT_FIRST=8479

configure() { settings_alone http >etcd.yml; }

service "$@"
