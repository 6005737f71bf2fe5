#!/usr/bin/env bash
# etcd.sh start|stop|uri: a server for figures. What it writes lies in memory, so that no disk is measured.
LOCKWRIGHT_RUN_DIR=/dev/shm/lockwright-bench
. "$(dirname "$0")/../../conformance/services/lib/etcd.sh"

NAME=bench-etcd PORT_ENV=LOCKWRIGHT_BENCH_ETCD_PORT PORT_FIRST=8479

configure() { settings_alone http >etcd.yml; }

service "$@"
