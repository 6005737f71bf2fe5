// concurrency.Mutex and recipes.RWMutex of etcd's own client, as a peer. Two holds of one session exclude nobody, so each
// has a session of its own, which is closed with it. Their tokens are their keys' creation revisions, as ours are.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"lockwright.dev/conformance/peer"
)

// held is one hold, with the key that says so; what unlocks it says whether it could.
type held struct {
	client  *clientv3.Client
	session *concurrency.Session
	key     string
	token   int64
	unlock  func() error
}

func (h *held) Token() int64 { return h.token }

// Until is when it ends at the earliest: it is over once the session is.
func (h *held) Until() int64 {
	select {
	case <-h.session.Done():
		return peer.Now()
	default:
	}
	lives, err := h.client.TimeToLive(context.Background(), h.session.Lease())
	if err != nil {
		return peer.Now()
	}
	return peer.Now() + max(0, lives.TTL)*1e9
}

func (h *held) IsHeld() (bool, error) {
	own, err := h.client.Get(context.Background(), h.key)
	return err == nil && len(own.Kvs) == 1 && own.Kvs[0].CreateRevision == h.token, err
}

func (h *held) Release() (string, error) {
	defer h.session.Close()
	held, err := h.IsHeld()
	if err == nil {
		err = h.unlock()
	}
	if held {
		return "released", err
	}
	return "expired", err
}

func open(addresses []*url.URL) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: strings.Split(addresses[0].Host, ","), DialTimeout: 5 * time.Second})
}

func acquire(at *clientv3.Client, c peer.Command, timeout *float64) (peer.Held, error) {
	session, err := concurrency.NewSession(at, concurrency.WithTTL(int(max(2, c.Seconds()+0.999))))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if timeout != nil && *timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, peer.Span(*timeout))
		defer cancel()
	}
	h := &held{client: at, session: session}
	switch c.Share {
	case "":
		err = h.lock(ctx, c.Lock, timeout != nil && *timeout == 0)
	case "read", "write":
		err = h.share(c.Lock, c.Share)
	default:
		err = fmt.Errorf("this library has no %s", c.Share)
	}
	if err == nil {
		return h, nil
	}
	session.Close()
	if errors.Is(err, concurrency.ErrLocked) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return nil, err
}

func (h *held) lock(ctx context.Context, name string, tries bool) error {
	mutex := concurrency.NewMutex(h.session, name)
	lock := mutex.Lock
	if tries {
		lock = mutex.TryLock
	}
	if err := lock(ctx); err != nil {
		return err
	}
	h.key, h.unlock = mutex.Key(), func() error { return mutex.Unlock(context.Background()) }
	return h.created()
}

func (h *held) share(name, share string) error {
	mutex := recipe.NewRWMutex(h.session, name)
	lock, unlock := mutex.Lock, mutex.Unlock
	if share == "read" {
		lock, unlock = mutex.RLock, mutex.RUnlock
	}
	if err := lock(); err != nil {
		return err
	}
	// It does not say what its key is called, but its session has no other.
	mine, err := h.client.Get(context.Background(), name+"/"+share+"/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range mine.Kvs {
		if kv.Lease == int64(h.session.Lease()) {
			h.key = string(kv.Key)
		}
	}
	h.unlock = unlock
	return h.created()
}

func (h *held) created() error {
	own, err := h.client.Get(context.Background(), h.key)
	if err == nil && len(own.Kvs) == 0 {
		err = &peer.Failure{Code: "lost", Message: "its key is gone"}
	}
	if err == nil {
		h.token = own.Kvs[0].CreateRevision
	}
	return err
}

func main() {
	peer.Main(peer.Library[*clientv3.Client]{Language: "go", Module: "go.etcd.io/etcd/client/v3", Open: open, Acquire: acquire})
}
