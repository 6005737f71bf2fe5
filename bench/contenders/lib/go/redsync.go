package main

import (
	"math"
	"net/url"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var redsyncMutex = contender{
	name:     "redsync Mutex",
	rows:     []string{"S7"},
	library:  "redsync",
	module:   "github.com/go-redsync/redsync/v4",
	requests: []string{"set", "evalsha", "eval"},
	connect: func(nodes []*url.URL) (func(string) (lock, error), error) {
		var pools []redsyncredis.Pool
		for _, node := range nodes {
			pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: node.Host})))
		}
		quorum := redsync.New(pools...)
		return func(key string) (lock, error) {
			return onQuorum{quorum.NewMutex(key, redsync.WithExpiry(30*time.Second), redsync.WithTries(math.MaxInt))}, nil
		}, nil
	},
}

type onQuorum struct{ *redsync.Mutex }

func (q onQuorum) acquire() error { return q.Lock() }

func (q onQuorum) release() error {
	_, err := q.Unlock()
	return err
}
