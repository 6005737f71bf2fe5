package main

import (
	"context"
	"net/url"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var bsmRedislock = contender{
	name:     "bsm/redislock",
	rows:     []string{"S1"},
	library:  "redislock",
	module:   "github.com/bsm/redislock",
	requests: []string{"set", "evalsha", "eval"},
	connect: func(servers []*url.URL) (func(string) (lock, error), error) {
		client := redislock.New(redis.NewClient(&redis.Options{Addr: servers[0].Host}))
		return func(key string) (lock, error) { return &obtained{client: client, key: key}, nil }, nil
	},
}

type obtained struct {
	client *redislock.Client
	key    string
	held   *redislock.Lock
}

func (o *obtained) acquire() (err error) {
	o.held, err = o.client.Obtain(context.Background(), o.key, 30*time.Second, nil)
	return err
}

func (o *obtained) release() error { return o.held.Release(context.Background()) }
