// concurrency.Mutex and recipes.RWMutex of etcd's own client, as a peer: it obeys those commands of a shim that this
// library can obey, which conformance/README.md describes. Two holds of one session exclude nobody, so each has a session
// of its own, which is closed with it. Their tokens are their keys' creation revisions, as ours are.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"golang.org/x/sys/unix"
)

const (
	usual   = 30.0
	library = "go.etcd.io/etcd/client/v3"
)

type command struct {
	ID         uint64   `json:"id"`
	Do         string   `json:"do"`
	URI        string   `json:"uri"`
	Client     string   `json:"client"`
	Lock       string   `json:"lock"`
	Guard      string   `json:"guard"`
	Share      string   `json:"share"`
	TTL        float64  `json:"ttl"`
	Timeout    *float64 `json:"timeout"`
	Tasks      int      `json:"tasks"`
	Increments int      `json:"increments"`
	Name       string   `json:"name"`
	Counter    string   `json:"counter"`
	Log        string   `json:"log"`
}

type object = map[string]any

// failure is an error with a code of the library's list.
type failure struct {
	code      string
	retryable bool
	message   string
}

func (f *failure) Error() string { return f.message }

type client = clientv3.Client

// held is one hold, with the key that says so; what unlocks it says whether it could.
type held struct {
	client  *client
	session *concurrency.Session
	key     string
	token   int64
	unlock  func() error
}

// remaining is what is left at least: nothing once the session is over.
func (h *held) remaining() float64 {
	select {
	case <-h.session.Done():
		return 0
	default:
	}
	lives, err := h.client.TimeToLive(context.Background(), h.session.Lease())
	if err != nil {
		return 0
	}
	return max(0, float64(lives.TTL))
}

func (h *held) until() int64 { return now() + int64(h.remaining()*1e9) }

func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

func span(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

type peer struct {
	mu      sync.Mutex
	clients map[string]*client
	guards  map[string]*held
}

func (p *peer) say(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Println(string(text))
}

func (p *peer) answer(c command) {
	ok, err := p.obey(c)
	if err == nil {
		p.say(object{"id": c.ID, "at": now(), "ok": ok})
		return
	}
	told := &failure{code: "error", message: err.Error()}
	errors.As(err, &told)
	p.say(object{"id": c.ID, "at": now(), "error": object{"code": told.code, "retryable": told.retryable, "message": told.message}})
}

func (p *peer) obey(c command) (object, error) {
	switch c.Do {
	case "open":
		return p.open(c)
	case "acquire":
		h, err := p.acquire(c, c.Timeout)
		if err == nil && h == nil {
			err = &failure{"timeout", true, "it was not free in time"}
		}
		return p.keep(c, h), err
	case "try":
		once := 0.0
		h, err := p.acquire(c, &once)
		if err == nil && h == nil {
			return object{"taken": true}, nil
		}
		return p.keep(c, h), err
	case "release":
		outcome, err := release(p.guard(c.Guard))
		return object{"outcome": outcome}, err
	case "state":
		h := p.guard(c.Guard)
		held, err := h.isHeld()
		return object{"held": held, "remaining": h.remaining(), "why": nil, "token": h.token, "depth": 1}, err
	case "work":
		return object{}, p.work(c)
	}
	return nil, fmt.Errorf("this library cannot %s", c.Do)
}

func (p *peer) open(c command) (object, error) {
	address, err := url.Parse(c.URI)
	if err != nil {
		return nil, err
	}
	connected, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(address.Host, ","), DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.Client] = connected
	return object{}, nil
}

// acquire waits for as long as it takes where there is no timeout; nothing when it is over, or when it is taken and zero.
func (p *peer) acquire(c command, timeout *float64) (*held, error) {
	seconds := c.TTL
	if seconds == 0 {
		seconds = usual
	}
	p.mu.Lock()
	at := p.clients[c.Client]
	p.mu.Unlock()
	session, err := concurrency.NewSession(at, concurrency.WithTTL(int(max(2, seconds+0.999))))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if timeout != nil && *timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, span(*timeout))
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
		err = &failure{"lost", false, "its key is gone"}
	}
	if err == nil {
		h.token = own.Kvs[0].CreateRevision
	}
	return err
}

func (h *held) isHeld() (bool, error) {
	own, err := h.client.Get(context.Background(), h.key)
	return err == nil && len(own.Kvs) == 1 && own.Kvs[0].CreateRevision == h.token, err
}

func (p *peer) keep(c command, h *held) object {
	if h == nil {
		return nil
	}
	p.mu.Lock()
	p.guards[c.Guard] = h
	p.mu.Unlock()
	return object{"token": h.token, "depth": 1, "remaining": h.remaining()}
}

func (p *peer) guard(name string) *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guards[name]
}

func release(h *held) (string, error) {
	defer h.session.Close()
	held, err := h.isHeld()
	if err == nil {
		err = h.unlock()
	}
	if held {
		return "released", err
	}
	return "expired", err
}

func (p *peer) work(c command) error {
	results := make(chan error, c.Tasks)
	for i := range c.Tasks {
		go func() { results <- p.task(c, fmt.Sprintf("%s-%d", c.Name, i)) }()
	}
	var first error
	for range c.Tasks {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// task counts up under the lock, and logs it as a shim's work does.
func (p *peer) task(c command, name string) error {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	note := func(at, token int64, more object) error {
		more["at"], more["pid"], more["task"], more["token"] = at, os.Getpid(), name, token
		text, err := json.Marshal(more)
		if err == nil {
			_, err = log.Write(append(text, '\n'))
		}
		return err
	}
	for range c.Increments {
		asked := now()
		h, err := p.acquire(c, nil)
		if err != nil {
			return err
		}
		grant := object{"event": "grant", "asked": asked, "until": h.until()}
		if units, shared := map[string]int{"read": 1, "write": 1 << 30}[c.Share]; shared {
			grant["units"] = units
		}
		if err := note(now(), h.token, grant); err != nil {
			return err
		}
		begin := now()
		value, err := countUp(c.Counter, name)
		if err != nil {
			return err
		}
		at := now()
		until := h.until()
		if err := note(at, h.token, object{"event": "increment", "begin": begin, "value": value, "held": at < until, "until": until}); err != nil {
			return err
		}
		outcome, err := release(h)
		if err != nil {
			return err
		}
		if err := note(now(), h.token, object{"event": "released", "outcome": outcome}); err != nil {
			return err
		}
	}
	return nil
}

// countUp is not atomic in the least, but for the last step: whoever is killed leaves the old value or the new one.
func countUp(counter, task string) (int, error) {
	value := 0
	text, err := os.ReadFile(counter)
	if err == nil {
		value, err = strconv.Atoi(strings.TrimSpace(string(text)))
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return 0, err
	}
	own := counter + "." + task
	if err := os.WriteFile(own, []byte(strconv.Itoa(value+1)), 0o600); err != nil {
		return 0, err
	}
	return value + 1, os.Rename(own, counter)
}

func version() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == library {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func main() {
	p := &peer{clients: map[string]*client{}, guards: map[string]*held{}}
	p.say(object{"pid": os.Getpid(), "language": "go", "version": version()})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "exit" {
			return
		}
		go p.answer(c)
	}
}
