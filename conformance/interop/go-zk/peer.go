// go-zookeeper's Lock as a peer: it obeys those commands of a shim that this library can obey, which
// conformance/README.md describes. A lock has no token, so 0 stands for it, and lasts as long as its session. It can
// neither be tried nor given up, so that each has a connection of its own, and a try looks whether anybody is there.
package main

import (
	"bufio"
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

	"github.com/go-zookeeper/zk"
	"golang.org/x/sys/unix"
)

const (
	usual   = 30 * time.Second
	library = "github.com/go-zookeeper/zk"
)

type command struct {
	ID         uint64   `json:"id"`
	Do         string   `json:"do"`
	URI        string   `json:"uri"`
	Client     string   `json:"client"`
	Lock       string   `json:"lock"`
	Guard      string   `json:"guard"`
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

func (h *held) remaining() float64 { return max(0, float64(h.until-now())/1e9) }

func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

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
			err = &failure{"timeout", true, "go-zk did not get the lock in time"}
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
		return object{"held": h.conn.State() == zk.StateHasSession, "remaining": h.remaining(), "why": nil, "token": 0, "depth": 1}, nil
	case "work":
		return object{}, p.work(c)
	}
	return nil, fmt.Errorf("go-zk cannot %s", c.Do)
}

func (p *peer) open(c command) (object, error) {
	address, err := url.Parse(c.URI)
	if err != nil {
		return nil, err
	}
	ttl := usual
	if text := address.Query().Get("ttl"); text != "" {
		if ttl, err = time.ParseDuration(text); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.Client] = &client{strings.Split(address.Host, ","), address.Path, ttl}
	return object{}, nil
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// acquire waits for as long as it takes where there is no timeout; nothing when it is over.
func (p *peer) acquire(c command, timeout *float64) (*held, error) {
	p.mu.Lock()
	at := p.clients[c.Client]
	p.mu.Unlock()
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
		over = time.After(max(time.Duration(*timeout*1e9), 500*time.Millisecond))
	}
	select {
	case err := <-done:
		if err != nil {
			conn.Close()
			return nil, err
		}
		return &held{conn, lock, now() + int64(at.ttl)}, nil
	case <-over:
		conn.Close()
		return nil, nil
	}
}

func (p *peer) keep(c command, h *held) object {
	if h == nil {
		return nil
	}
	p.mu.Lock()
	p.guards[c.Guard] = h
	p.mu.Unlock()
	return object{"token": 0, "depth": 1, "remaining": h.remaining()}
}

func (p *peer) guard(name string) *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guards[name]
}

func release(h *held) (string, error) {
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
	note := func(at int64, more object) error {
		more["at"], more["pid"], more["task"], more["token"] = at, os.Getpid(), name, 0
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
		if err := note(now(), object{"event": "grant", "asked": asked, "until": h.until}); err != nil {
			return err
		}
		begin := now()
		value, err := countUp(c.Counter, name)
		if err != nil {
			return err
		}
		at := now()
		if err := note(at, object{"event": "increment", "begin": begin, "value": value, "held": at < h.until, "until": h.until}); err != nil {
			return err
		}
		outcome, err := release(h)
		if err != nil {
			return err
		}
		if err := note(now(), object{"event": "released", "outcome": outcome}); err != nil {
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
	p.say(object{"pid": os.Getpid(), "language": "go-zk", "version": version()})
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
