// The contenders in Go, and the protocol of bench/README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lock is what one task acquires and releases.
type lock interface {
	acquire() error
	release() error
}

// contender is a lock of a library: what it is called, its role, the rows that it takes part in, the library and its module, the requests that
// it sends, and how it connects to these servers, to something that makes the locks of tasks.
type contender struct {
	name     string
	role     string
	rows     []string
	library  string
	module   string
	requests []string
	connect  func(servers []*url.URL) (func(key string) (lock, error), error)
}

type tally struct {
	Acquired uint64  `json:"acquired"`
	Ns       []int64 `json:"ns"`
}

func say(line any) {
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

func (c contender) offer() {
	versions := map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go"), c.library + " (Go)": version(c.module)}
	offer := map[string]any{"name": c.name, "language": "Go", "rows": c.rows, "requests": c.requests, "versions": versions}
	if c.role != "" {
		offer["role"] = c.role
	}
	say(offer)
}

// yardstick is the same contender as what the others are compared with.
func (c contender) yardstick() contender {
	c.role = "yardstick"
	return c
}

func pairs(of lock, count int) []int64 {
	took := make([]int64, 0, count)
	for range count {
		began := time.Now()
		check(of.acquire())
		check(of.release())
		took = append(took, time.Since(began).Nanoseconds())
	}
	return took
}

func keys(tasks int, own bool) []string {
	names := make([]string, tasks)
	for task := range names {
		names[task] = "bench:one"
		if own {
			names[task] = fmt.Sprintf("bench:%d:%d", os.Getpid(), task)
		}
	}
	return names
}

func expect(in *bufio.Scanner, wanted string) {
	if !in.Scan() || in.Text() != wanted {
		check(fmt.Errorf("was told %q in place of %s", in.Text(), wanted))
	}
}

func crowd(in *bufio.Scanner, locks []lock) []tally {
	fmt.Println("ready")
	expect(in, "go")
	var stopped atomic.Bool
	var tasks sync.WaitGroup
	tallies := make([]tally, len(locks))
	for task, of := range locks {
		tasks.Go(func() {
			for !stopped.Load() {
				began := time.Now()
				check(of.acquire())
				tallies[task].Ns = append(tallies[task].Ns, time.Since(began).Nanoseconds())
				if !stopped.Load() {
					tallies[task].Acquired++
				}
				check(of.release())
			}
		})
	}
	expect(in, "stop")
	stopped.Store(true)
	tasks.Wait()
	return tallies
}

func work(c contender, servers []*url.URL) {
	make, err := c.connect(servers)
	check(err)
	lockOf := func(key string) lock {
		made, err := make(key)
		check(err)
		return made
	}
	free := lockOf("bench:free")
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		count, err := strconv.Atoi(words[1])
		check(err)
		switch words[0] {
		case "pairs":
			say(pairs(free, count))
		case "crowd":
			pairs(free, 1)
			var locks []lock
			for _, key := range keys(count, words[2] == "own") {
				locks = append(locks, lockOf(key))
			}
			say(crowd(in, locks))
		default:
			check(fmt.Errorf("was told %q", in.Text()))
		}
	}
}

func main() {
	contenders := append([]contender{etcdMutex, zookeeperLock, rueidisLock, redsyncMutex, bsmRedislock}, databaseLocks...)
	if os.Args[1] == "list" {
		for _, c := range contenders {
			c.offer()
		}
		return
	}
	var servers []*url.URL
	for _, text := range strings.Fields(os.Args[3]) {
		server, err := url.Parse(text)
		check(err)
		servers = append(servers, server)
	}
	for _, c := range contenders {
		if c.name == os.Args[2] {
			work(c, servers)
			return
		}
	}
	check(fmt.Errorf("there is no contender %q here", os.Args[2]))
}
