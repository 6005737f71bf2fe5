package main

import (
	"net/url"
	"time"

	"github.com/go-zookeeper/zk"
)

var zookeeperLock = contender{
	name:     "go-zk Lock",
	rows:     []string{"S9", "S9C"},
	library:  "go-zookeeper",
	module:   "github.com/go-zookeeper/zk",
	requests: []string{"all"},
	connect: func(servers []*url.URL) (func(string) (lock, error), error) {
		connection, _, err := zk.Connect([]string{servers[0].Host}, 30*time.Second, zk.WithLogger(silent{}))
		return func(key string) (lock, error) {
			return node{zk.NewLock(connection, servers[0].Path+"/go-"+key, zk.WorldACL(zk.PermAll))}, nil
		}, err
	},
}

type silent struct{}

func (silent) Printf(string, ...any) {}

type node struct{ *zk.Lock }

func (n node) acquire() error { return n.Lock.Lock() }
func (n node) release() error { return n.Unlock() }
