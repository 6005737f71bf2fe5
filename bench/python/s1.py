"""S1: acquire and release of a lock that nobody else wants, by one thread, over Redis.

    taskset -c 0 python bench/python/s1.py redis://127.0.0.1:7379

The server should be pinned to the same CPU. All contenders run in this process, in turns of 20 pairs, so that whatever
the machine does meanwhile it does to each of them. Printed is the median time of a pair, over the rounds as
min/median/max, and as a multiple of the `bare socket`: the same two EVALSHA as bytes over a socket, with nothing in
between. A release build of the package is needed (`maturin develop --release`), and what `requirements.txt` names.
"""

from __future__ import annotations

import argparse
import platform
import socket
import statistics
import time
from typing import Callable
from urllib.parse import urlsplit

import lockwright
import redis

TURN = 20
ACQUIRE = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

Pair = Callable[[], object]


def bare_socket(url: str, acquire: str, release: str) -> Pair:
    place = urlsplit(url)
    connection = socket.create_connection((place.hostname, place.port or 6379))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def command(*words: str) -> bytes:
        return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)

    take = command("EVALSHA", acquire, "1", "s1:bare", "owner", "30000")
    give = command("EVALSHA", release, "1", "s1:bare", "owner")

    def pair() -> None:
        connection.sendall(take)
        assert connection.recv(4096) == b"+OK\r\n"
        connection.sendall(give)
        assert connection.recv(4096) == b":1\r\n"

    return pair


def contenders(url: str) -> dict[str, Pair]:
    server = redis.Redis.from_url(url)
    acquire, release = server.script_load(ACQUIRE), server.script_load(RELEASE)
    client = lockwright.connect(url, prefix="s1:")
    lock, blocked = client.lock("lock"), client.lock("with")
    theirs = server.lock("s1:redis-py", timeout=30)

    def ours() -> None:
        lock.acquire()
        lock.release()

    def block() -> None:
        with blocked:
            pass

    def redis_py_lock() -> None:
        theirs.acquire()
        theirs.release()

    def redis_py_raw() -> None:
        assert server.set("s1:raw", "owner", nx=True, px=30000)
        assert server.evalsha(release, 1, "s1:raw", "owner")

    return {
        "bare socket": bare_socket(url, acquire, release),
        "lockwright, acquire and release": ours,
        "lockwright, with": block,
        "redis-py, SET NX PX and EVALSHA": redis_py_raw,
        "redis-py Lock": redis_py_lock,
    }


def turn(pair: Pair) -> float:
    began = time.perf_counter_ns()
    for _ in range(TURN):
        pair()
    return (time.perf_counter_ns() - began) / TURN / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turns", type=int, default=100, help="of each contender in a round")
    arguments = parser.parse_args()

    pairs = contenders(arguments.url)
    for pair in pairs.values():
        turn(pair)
    rounds: dict[str, list[float]] = {name: [] for name in pairs}
    for _ in range(arguments.rounds):
        turns: dict[str, list[float]] = {name: [] for name in pairs}
        for _ in range(arguments.turns):
            for name, pair in pairs.items():
                turns[name].append(turn(pair))
        for name, times in turns.items():
            rounds[name].append(statistics.median(times))

    version = redis.Redis.from_url(arguments.url).info("server")["redis_version"]
    print(f"Python {platform.python_version()}, lockwright {lockwright.__version__}, ", end="")
    print(f"redis-py {redis.__version__}, Redis {version}; {arguments.rounds} rounds of {arguments.turns} x {TURN} pairs")
    bare = statistics.median(rounds["bare socket"])
    for name, times in rounds.items():
        low, middle, high = min(times), statistics.median(times), max(times)
        print(f"{name:32} {low:7.1f} {middle:7.1f} {high:7.1f} us  {middle / bare:5.2f} x")


if __name__ == "__main__":
    main()
