// go-zookeeper's Lock as a peer. A lock has no token, so 0 stands for it, and lasts as long as its session. It can
// neither be tried nor given up, so that each has a connection of its own, and a try looks whether anybody is there.
package main

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"lockwright.dev/conformance/peer"
)

type client struct {
	hosts []string
	root  string
	ttl   time.Duration
}

// held is one hold, and until when its session would last in silence.
type held struct {
	conn  *zk.Conn
	lock  *zk.Lock
	until int64
}

func (h *held) Token() int64          { return 0 }
func (h *held) Until() int64          { return h.until }
func (h *held) IsHeld() (bool, error) { return h.conn.State() == zk.StateHasSession, nil }

func (h *held) Release() (string, error) {
	defer h.conn.Close()
	switch err := h.lock.Unlock(); {
	case err == nil:
		return "released", nil
	case errors.Is(err, zk.ErrNoNode):
		return "expired", nil
	default:
		return "", err
	}
}

func open(addresses []*url.URL) (*client, error) {
	address := addresses[0]
	ttl := peer.Span(peer.Usual)
	if text := address.Query().Get("ttl"); text != "" {
		var err error
		if ttl, err = time.ParseDuration(text); err != nil {
			return nil, err
		}
	}
	return &client{strings.Split(address.Host, ","), address.Path, ttl}, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func acquire(at *client, c peer.Command, timeout *float64) (peer.Held, error) {
	path := at.root + "/" + c.Lock
	conn, _, err := zk.Connect(at.hosts, at.ttl, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	if timeout != nil && *timeout == 0 {
		there, _, err := conn.Children(path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) || len(there) > 0 {
			conn.Close()
			return nil, err
		}
	}
	lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- lock.Lock() }()
	var over <-chan time.Time
	if timeout != nil {
		over = time.After(max(peer.Span(*timeout), 500*time.Millisecond))
	}
	select {
	case err := <-done:
		if err != nil {
			conn.Close()
			return nil, err
		}
		return &held{conn, lock, peer.Now() + int64(at.ttl)}, nil
	case <-over:
		conn.Close()
		return nil, nil
	}
}

func main() {
	peer.Main(peer.Library[*client]{Language: "go-zk", Module: "github.com/go-zookeeper/zk", Open: open, Acquire: acquire})
}
