"""Very many locks, held and renewed by one process; times in seconds, where nothing else is said."""

from __future__ import annotations

import gc
import json
import logging
import os
import statistics
import time


def hold(url, locks, ttl, seconds, pairs):
    """Says what it took, as one JSON object."""
    import lockwright

    # It would show each lock that closing the client gives back.
    logging.getLogger("lockwright").setLevel(logging.CRITICAL)
    with lockwright.connect(url, prefix=f"bench:s11:{os.getpid()}:") as client:
        first = client.lock("first", ttl=ttl).acquire_guard()
        seen = {"locks": locks, "pair_us_before": pair(client, pairs), "idle_kib": memory()}
        began = time.perf_counter()
        held = [client.lock(f"{number:06}", ttl=ttl).acquire_guard() for number in range(locks)]
        seen["acquire_us_a_lock"] = (time.perf_counter() - began) * 1e6 / locks
        # By then every lock was renewed at least once, and renewals have found their ticks.
        time.sleep(ttl * 2 / 3)
        seen["held_kib"] = memory()
        seen |= steady(client, seconds)
        seen["pair_us_held"] = pair(client, pairs)
        seen["lost"] = sum(client.metrics().lost.values())
        seen["threads"] = len(os.listdir("/proc/self/task"))
        if not all(guard.is_held for guard in [first, *held]):
            raise SystemExit("not all are held")
    print(json.dumps(seen), flush=True)


def steady(client, seconds):
    before, cpu, began = client.metrics(), time.process_time(), time.perf_counter()
    time.sleep(seconds)
    used, elapsed, after = time.process_time() - cpu, time.perf_counter() - began, client.metrics()
    renewals, requests = after.renewals - before.renewals, after.round_trips - before.round_trips
    return {
        "cpu_a_minute": used / elapsed * 60,
        "renewals": renewals,
        "round_trips": requests,
        "locks_a_request": renewals / max(1, requests),
    }


def pair(client, pairs):
    """The median time of a pair of one more lock, in microseconds."""
    took = []
    for _ in range(pairs):
        began = time.perf_counter_ns()
        client.lock("pair").acquire_guard().release()
        took.append(time.perf_counter_ns() - began)
    return statistics.median(took) / 1e3


def memory():
    """KiB of the process, once what nobody needs is collected."""
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
