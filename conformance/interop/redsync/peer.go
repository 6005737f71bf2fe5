// redsync's Mutex on one server, as a peer: it obeys those commands of a shim that this library can obey, which
// conformance/README.md describes. A mutex has no token, so 0 stands for it, and is never renewed.
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

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

const (
	poll    = 10 * time.Millisecond
	usual   = 30.0
	library = "github.com/go-redsync/redsync/v4"
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
	redis *redis.Client
	sync  *redsync.Redsync
}

// held is one hold, and until when it lasts.
type held struct {
	client *client
	mutex  *redsync.Mutex
	until  int64
}

func (h *held) remaining() float64 { return max(0, float64(h.until-now())/1e9) }

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
			err = &failure{"timeout", true, "redsync did not get the lock in time"}
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
	case "extend":
		return object{}, extend(p.guard(c.Guard), c.TTL)
	case "state":
		h := p.guard(c.Guard)
		value, err := h.client.redis.Get(context.Background(), h.mutex.Name()).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		return object{"held": value == h.mutex.Value(), "remaining": h.remaining(), "why": nil, "token": 0, "depth": 1}, nil
	case "work":
		return object{}, p.work(c)
	}
	return nil, fmt.Errorf("redsync cannot %s", c.Do)
}

func (p *peer) open(c command) (object, error) {
	address, err := url.Parse(c.URI)
	if err != nil {
		return nil, err
	}
	connections := redis.NewClient(&redis.Options{Addr: address.Host})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.Client] = &client{connections, redsync.New(goredis.NewPool(connections))}
	return object{}, nil
}

// acquire waits for as long as it takes where there is no timeout; nothing when it is over.
func (p *peer) acquire(c command, timeout *float64) (*held, error) {
	ttl := c.TTL
	if ttl == 0 {
		ttl = usual
	}
	p.mu.Lock()
	at := p.clients[c.Client]
	p.mu.Unlock()
	begun := time.Now()
	for {
		asked := now()
		mutex := at.sync.NewMutex(c.Lock, redsync.WithExpiry(span(ttl)), redsync.WithTries(1))
		err := mutex.TryLock()
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			return &held{at, mutex, asked + int64(ttl*1e9)}, nil
		case !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed):
			return nil, err
		}
		if timeout != nil && time.Since(begun).Seconds() >= *timeout {
			return nil, nil
		}
		time.Sleep(poll)
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
	done, err := h.mutex.Unlock()
	var taken *redsync.ErrTaken
	switch {
	case done && err == nil:
		return "released", nil
	case errors.Is(err, redsync.ErrLockAlreadyExpired):
		return "expired", nil
	case err == nil || errors.As(err, &taken):
		return "stolen", nil
	}
	return "", err
}

// extend makes a mutex of the same value: one lasts as long each time as it was made for.
func extend(h *held, ttl float64) error {
	asked := now()
	longer := h.client.sync.NewMutex(h.mutex.Name(), redsync.WithExpiry(span(ttl)), redsync.WithTries(1), redsync.WithValue(h.mutex.Value()))
	done, err := longer.Extend()
	if !done || err != nil {
		return &failure{"lost", false, fmt.Sprint("redsync could not extend: ", err)}
	}
	h.until = asked + int64(ttl*1e9)
	return nil
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
	p.say(object{"pid": os.Getpid(), "language": "redsync", "version": version()})
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
