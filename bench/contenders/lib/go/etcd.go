package main

import (
	"context"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var etcdMutex = contender{
	name:     "Go concurrency.Mutex",
	rows:     []string{"S8", "S8C"},
	library:  "etcd client",
	module:   "go.etcd.io/etcd/client/v3",
	requests: []string{"Txn", "Range", "DeleteRange"},
	connect: func(servers []*url.URL) (func(string) (lock, error), error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{servers[0].Host}, DialTimeout: 5 * time.Second})
		return func(key string) (lock, error) {
			// Two who share a session share its locks, too.
			session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
			if err != nil {
				return nil, err
			}
			return mutex{concurrency.NewMutex(session, key)}, nil
		}, err
	},
}

type mutex struct{ *concurrency.Mutex }

func (m mutex) acquire() error { return m.Lock(context.Background()) }
func (m mutex) release() error { return m.Unlock(context.Background()) }
