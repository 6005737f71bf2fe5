package main

import (
	"context"
	"net/url"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidisLock = contender{
	name:     "rueidislock",
	rows:     []string{"S3"},
	library:  "rueidis",
	module:   "github.com/redis/rueidis",
	requests: []string{"evalsha", "eval", "set", "get"},
	connect: func(servers []*url.URL) (func(string) (lock, error), error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{servers[0].Host}},
			KeyMajority:  1,
			// The server has what tracking without it needs since 7.0.5.
			NoLoopTracking: true,
		})
		return func(key string) (lock, error) { return &leased{locker: locker, key: key}, nil }, err
	},
}

type leased struct {
	locker rueidislock.Locker
	key    string
	cancel context.CancelFunc
}

func (l *leased) acquire() (err error) {
	_, l.cancel, err = l.locker.WithContext(context.Background(), l.key)
	return err
}

func (l *leased) release() error {
	l.cancel()
	return nil
}
