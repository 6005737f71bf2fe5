// redsync's Mutex on one server or on several, as a peer. A mutex has no token, so 0 stands for it, and is never renewed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"lockwright.dev/conformance/peer"
)

const poll = 10 * time.Millisecond

type client struct {
	nodes []*redis.Client
	sync  *redsync.Redsync
}

// held is one hold, and until when it lasts.
type held struct {
	client *client
	mutex  *redsync.Mutex
	until  int64
}

func (h *held) Token() int64 { return 0 }
func (h *held) Until() int64 { return h.until }

func (h *held) IsHeld() (bool, error) {
	has := 0
	for _, node := range h.client.nodes {
		value, err := node.Get(context.Background(), h.mutex.Name()).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		if value == h.mutex.Value() {
			has++
		}
	}
	return has > len(h.client.nodes)/2, nil
}

// isTaken says whether somebody else has the lock, on a majority or where that was missed.
func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	var there *redsync.ErrNodeTaken
	return errors.As(err, &taken) || errors.As(err, &there) || errors.Is(err, redsync.ErrFailed)
}

func (h *held) Release() (string, error) {
	done, err := h.mutex.Unlock()
	switch {
	case done && err == nil:
		return "released", nil
	case errors.Is(err, redsync.ErrLockAlreadyExpired):
		return "expired", nil
	case err == nil || isTaken(err):
		return "stolen", nil
	}
	return "", err
}

// Extend makes a mutex of the same value: one lasts as long each time as it was made for.
func (h *held) Extend(ttl float64) error {
	asked := peer.Now()
	longer := h.client.sync.NewMutex(h.mutex.Name(), redsync.WithExpiry(peer.Span(ttl)), redsync.WithTries(1), redsync.WithValue(h.mutex.Value()))
	done, err := longer.Extend()
	if !done || err != nil {
		return &peer.Failure{Code: "lost", Message: fmt.Sprint("redsync could not extend: ", err)}
	}
	h.until = asked + int64(ttl*1e9)
	return nil
}

func open(addresses []*url.URL) (*client, error) {
	var nodes []*redis.Client
	var pools []redsyncredis.Pool
	for _, address := range addresses {
		node := redis.NewClient(&redis.Options{Addr: address.Host})
		nodes, pools = append(nodes, node), append(pools, goredis.NewPool(node))
	}
	return &client{nodes, redsync.New(pools...)}, nil
}

func acquire(at *client, c peer.Command, timeout *float64) (peer.Held, error) {
	ttl := c.Seconds()
	begun := time.Now()
	for {
		asked := peer.Now()
		mutex := at.sync.NewMutex(c.Lock, redsync.WithExpiry(peer.Span(ttl)), redsync.WithTries(1))
		err := mutex.TryLock()
		switch {
		case err == nil:
			return &held{at, mutex, asked + int64(ttl*1e9)}, nil
		case !isTaken(err):
			return nil, err
		}
		if timeout != nil && time.Since(begun).Seconds() >= *timeout {
			return nil, nil
		}
		time.Sleep(poll)
	}
}

func main() {
	peer.Main(peer.Library[*client]{Language: "redsync", Module: "github.com/go-redsync/redsync/v4", Open: open, Acquire: acquire})
}
