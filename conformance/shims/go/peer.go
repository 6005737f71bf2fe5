// Package peer is what all peers in Go have in common: they obey those commands of a shim that their library can obey,
// which conformance/README.md describes.
package peer

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

	"golang.org/x/sys/unix"
)

// Usual is for how many seconds a lock is taken where the command does not say.
const Usual = 30.0

// Command is a line that was read.
type Command struct {
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

// Seconds is how long the lock is to last.
func (c Command) Seconds() float64 {
	if c.TTL == 0 {
		return Usual
	}
	return c.TTL
}

type object = map[string]any

// Failure is an error with a code of the library's list.
type Failure struct {
	Code      string
	Retryable bool
	Message   string
}

func (f *Failure) Error() string { return f.Message }

// Held is one hold.
type Held interface {
	// Token is 0 where the library has none.
	Token() int64
	// Until is when it ends, if nobody prolongs it.
	Until() int64
	IsHeld() (bool, error)
	// Release says what became of it.
	Release() (string, error)
}

// Extends is a hold that can be made to last longer.
type Extends interface {
	Extend(ttl float64) error
}

// Library is what a peer does by its library, of which C is a client.
type Library[C any] struct {
	// Language is what the peer calls itself.
	Language string
	// Module is the library's path, whose version is told.
	Module string
	// Open makes a client of the servers at these addresses, of which most libraries know one.
	Open func(addresses []*url.URL) (C, error)
	// Acquire waits for as long as it takes where there is no timeout, and only tries where that is zero; nothing when
	// it is over.
	Acquire func(client C, c Command, timeout *float64) (Held, error)
}

type peer[C any] struct {
	Library[C]
	mu      sync.Mutex
	clients map[string]C
	guards  map[string]Held
}

// Now is the time as a shim tells it.
func Now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// Span is so many seconds.
func Span(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

func remaining(h Held) float64 { return max(0, float64(h.Until()-Now())/1e9) }

func (p *peer[C]) say(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Println(string(text))
}

func (p *peer[C]) answer(c Command) {
	ok, err := p.obey(c)
	if err == nil {
		p.say(object{"id": c.ID, "at": Now(), "ok": ok})
		return
	}
	told := &Failure{Code: "error", Message: err.Error()}
	errors.As(err, &told)
	p.say(object{"id": c.ID, "at": Now(), "error": object{"code": told.Code, "retryable": told.Retryable, "message": told.Message}})
}

func (p *peer[C]) obey(c Command) (object, error) {
	switch c.Do {
	case "open":
		return object{}, p.open(c)
	case "acquire":
		h, err := p.acquire(c, c.Timeout)
		if err == nil && h == nil {
			err = &Failure{"timeout", true, p.Language + " did not get the lock in time"}
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
		outcome, err := p.guard(c.Guard).Release()
		return object{"outcome": outcome}, err
	case "extend":
		if h, can := p.guard(c.Guard).(Extends); can {
			return object{}, h.Extend(c.TTL)
		}
	case "state":
		h := p.guard(c.Guard)
		held, err := h.IsHeld()
		return object{"held": held, "remaining": remaining(h), "why": nil, "token": h.Token(), "depth": 1}, err
	case "work":
		return object{}, p.work(c)
	}
	return nil, fmt.Errorf("%s cannot %s", p.Language, c.Do)
}

func (p *peer[C]) open(c Command) error {
	var addresses []*url.URL
	for _, text := range strings.Fields(c.URI) {
		address, err := url.Parse(text)
		if err != nil {
			return err
		}
		addresses = append(addresses, address)
	}
	opened, err := p.Open(addresses)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.Client] = opened
	return nil
}

func (p *peer[C]) acquire(c Command, timeout *float64) (Held, error) {
	p.mu.Lock()
	at := p.clients[c.Client]
	p.mu.Unlock()
	return p.Acquire(at, c, timeout)
}

func (p *peer[C]) keep(c Command, h Held) object {
	if h == nil {
		return nil
	}
	p.mu.Lock()
	p.guards[c.Guard] = h
	p.mu.Unlock()
	return object{"token": h.Token(), "depth": 1, "remaining": remaining(h)}
}

func (p *peer[C]) guard(name string) Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.guards[name]
}

func (p *peer[C]) work(c Command) error {
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
func (p *peer[C]) task(c Command, name string) error {
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
		asked := Now()
		h, err := p.acquire(c, nil)
		if err != nil {
			return err
		}
		grant := object{"event": "grant", "asked": asked, "until": h.Until()}
		if units, shared := map[string]int{"read": 1, "write": 1 << 30}[c.Share]; shared {
			grant["units"] = units
		}
		if err := note(Now(), h.Token(), grant); err != nil {
			return err
		}
		begin := Now()
		value, err := countUp(c.Counter, name)
		if err != nil {
			return err
		}
		at := Now()
		until := h.Until()
		if err := note(at, h.Token(), object{"event": "increment", "begin": begin, "value": value, "held": at < until, "until": until}); err != nil {
			return err
		}
		outcome, err := h.Release()
		if err != nil {
			return err
		}
		if err := note(Now(), h.Token(), object{"event": "released", "outcome": outcome}); err != nil {
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

func version(library string) string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == library {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

// Main obeys what is read until it is told to exit.
func Main[C any](library Library[C]) {
	p := &peer[C]{Library: library, clients: map[string]C{}, guards: map[string]Held{}}
	p.say(object{"pid": os.Getpid(), "language": p.Language, "version": version(p.Module)})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		if c.Do == "exit" {
			return
		}
		go p.answer(c)
	}
}
