//! Latches and barriers on ZooKeeper, the whole way down and back.

mod zookeeper_server;

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use lockwright::blocking::{Barrier, Client, Latch};
use lockwright::{Arrival, Error, Kind};
use rustix::process::Signal;
use zookeeper_server::{Server, until};

fn latch(client: &Client, name: &str, count: u32) -> Latch {
    client.latch(name, count).build().unwrap()
}

fn barrier(client: &Client, name: &str, parties: u32) -> Barrier {
    client.barrier(name, parties).ttl(Duration::from_secs(2)).build().unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.unwrap_err().kind()
}

/// How many nodes keep a session's, and how many are watched.
fn left(server: &Server) -> (usize, usize) {
    let number = |word: &str, what: &str| {
        let said = server.ask(word);
        let line = said.lines().find(|line| line.contains(what)).unwrap_or_default().to_owned();
        line.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
    };
    (number("mntr", "zk_ephemerals_count"), number("mntr", "zk_watch_count"))
}

#[test]
fn who_waits_for_a_latch_goes_on_once_all_have_counted_down_and_each_counts_once() {
    let server = Server::start();
    let [here, there] = [0, 1].map(|_| server.client("ttl=2s"));
    let waits: Vec<_> = [&here, &there, &there]
        .map(|client| {
            let latch = latch(client, "x", 40);
            thread::spawn(move || latch.wait())
        })
        .into();
    until("they wait", || here.inspect("x").unwrap().waiters == 3);
    let counts: Vec<_> = (0..39)
        .map(|number| {
            let latch = latch(if number % 2 == 0 { &here } else { &there }, "x", 40);
            thread::spawn(move || latch.count_down().unwrap())
        })
        .collect();
    let left: BTreeSet<_> = counts.into_iter().map(|count| count.join().unwrap()).collect();
    assert_eq!(left, (1..40).collect());
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    let seen = there.inspect("x").unwrap();
    assert_eq!((seen.primitive, seen.latch.unwrap().count, seen.waiters), (Some("latch"), 1, 3));
    let mine = latch(&here, "x", 40);
    assert!(!mine.wait_within(Some(Duration::from_millis(200))).unwrap());
    assert!(!mine.wait_within(Some(Duration::ZERO)).unwrap() && !mine.try_set_count(3).unwrap());
    assert_eq!(mine.count_down().unwrap(), 0);
    for wait in waits {
        wait.join().unwrap().unwrap();
    }
    assert!(mine.wait_within(Some(Duration::ZERO)).unwrap());
    mine.wait().unwrap();
    assert_eq!((mine.count_down().unwrap(), mine.count().unwrap(), here.list().unwrap()), (0, 0, vec!["x".into()]));
    assert!(mine.try_set_count(2).unwrap() && latch(&there, "new", 3).try_set_count(6).unwrap());
    assert_eq!((mine.count().unwrap(), latch(&here, "new", 3).count().unwrap()), (2, 6));
    assert!(!mine.wait_within(Some(Duration::ZERO)).unwrap());
    until("nothing of who waited is left", || self::left(&server).0 == 0);
}

#[test]
fn a_count_down_whose_answer_is_lost_counts_once() {
    let server = Server::start();
    let way = server.gate();
    let client = server.client_by(&way, "ttl=2s&response_timeout=300ms");
    let latch = latch(&client, "x", 30);
    assert_eq!(latch.count_down().unwrap(), 29);
    for left in (9..29).rev() {
        // It is shut at another moment of the way each time.
        let shuts = {
            let latch = latch.clone();
            thread::spawn(move || latch.count_down().unwrap())
        };
        thread::sleep(Duration::from_micros(u64::from(29 - left) * 150));
        way.shut();
        thread::sleep(Duration::from_millis(700));
        way.open();
        assert_eq!(shuts.join().unwrap(), left);
    }
    assert_eq!(self::latch(&server.client("ttl=2s"), "x", 1).count().unwrap(), 9);
}

#[test]
fn all_at_a_barrier_go_on_together_and_nobody_is_ahead_by_more_than_one_generation() {
    let server = Server::start();
    let parties: Vec<_> = (0..4)
        .map(|_| {
            let barrier = barrier(&server.client("ttl=2s"), "x", 4);
            thread::spawn(move || (0..25).map(|_| barrier.wait().unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let seen: Vec<_> = parties.into_iter().map(|party| party.join().unwrap()).collect();
    let mut last = 0;
    for round in 0..25 {
        let generation = seen[0][round].generation;
        assert!(generation > last && seen.iter().all(|party| party[round].generation == generation), "{seen:?}");
        last = generation;
        let indexes: BTreeSet<_> = seen.iter().map(|party| party[round].index).collect();
        assert_eq!(indexes, (0..4).collect());
    }
    until("nothing is left", || left(&server) == (0, 0));
}

#[test]
fn a_place_that_was_given_up_is_another_ones() {
    let server = Server::start();
    let [here, there] = [0, 1].map(|_| server.client("ttl=2s"));
    let mine = barrier(&here, "x", 2);
    assert_eq!((mine.waiting().unwrap(), mine.wait_within(Some(Duration::ZERO)).unwrap()), (0, None));
    assert_eq!(mine.wait_within(Some(Duration::from_millis(200))).unwrap(), None);
    assert_eq!(mine.waiting().unwrap(), 0);
    let cancelled = mine.gate().begin(None).unwrap();
    until("it waits", || mine.waiting().unwrap() == 1);
    assert_eq!(here.inspect("x").unwrap().primitive, Some("barrier"));
    let error = barrier(&there, "x", 3).wait().unwrap_err();
    assert!(
        error.kind() == Kind::InvalidConfig && error.to_string().contains("for 3 parties here, but for 2"),
        "{error}"
    );
    drop(cancelled);
    until("it is given up", || mine.waiting().unwrap() == 0);
    let closed = {
        let waits = barrier(&there, "x", 2);
        thread::spawn(move || waits.wait())
    };
    until("it waits", || mine.waiting().unwrap() == 1);
    there.close();
    assert_eq!(kind(closed.join().unwrap()), Kind::Closed);
    until("it is gone", || mine.waiting().unwrap() == 0);
    let waits = {
        let mine = mine.clone();
        thread::spawn(move || mine.wait().unwrap())
    };
    until("it waits", || mine.waiting().unwrap() == 1);
    let Arrival { index, generation } = mine.wait_within(Some(Duration::ZERO)).unwrap().unwrap();
    assert_eq!((index, waits.join().unwrap()), (1, Arrival { index: 0, generation }));
    assert_eq!(kind(here.barrier("x", 1001).build()), Kind::Unsupported);
}

#[test]
fn a_time_limit_tells_the_truth_however_the_barrier_opens() {
    let server = Server::start();
    let [here, there] = [0, 1].map(|_| server.client("ttl=2s"));
    let (mine, theirs) = (barrier(&here, "x", 2), barrier(&there, "x", 2));
    let mut passed = 0;
    for round in 0..16_u64 {
        let waits = {
            let theirs = theirs.clone();
            thread::spawn(move || theirs.wait_within(Some(Duration::from_secs(1))).unwrap())
        };
        thread::sleep(Duration::from_millis(970 + round * 3));
        let other = mine.wait_within(Some(Duration::from_secs(1))).unwrap();
        assert_eq!(waits.join().unwrap().map(|arrival| arrival.generation), other.map(|arrival| arrival.generation));
        passed += u32::from(other.is_some());
        assert_eq!(mine.waiting().unwrap(), 0);
    }
    assert!(passed > 0, "nobody passed");
}

#[test]
fn a_party_whose_session_ends_while_it_waits_does_not_know_whether_it_passed() {
    let server = Server::start();
    let way = server.gate();
    let (cut, other) = (server.client_by(&way, "ttl=2s"), server.client("ttl=2s"));
    let theirs = barrier(&other, "x", 2);
    let waits = {
        let barrier = barrier(&cut, "x", 2);
        thread::spawn(move || barrier.wait())
    };
    until("it waits", || theirs.waiting().unwrap() == 1);
    way.shut();
    until("its session is over", || theirs.waiting().unwrap() == 0);
    way.open();
    assert_eq!(kind(waits.join().unwrap()), Kind::Lost);
    assert_eq!(theirs.wait_within(Some(Duration::from_millis(300))).unwrap(), None, "nobody stands there");
}

#[test]
fn waits_go_on_over_a_server_that_is_stopped_and_one_that_is_restarted() {
    let server = Server::start();
    let [here, there] = [0, 1].map(|_| server.client("ttl=90s"));
    let waits = {
        let (latch, barrier) = (latch(&here, "latch", 1), barrier(&here, "barrier", 2));
        [thread::spawn(move || latch.wait().is_ok()), thread::spawn(move || barrier.wait().is_ok())]
    };
    let (opens, last) = (latch(&there, "latch", 1), barrier(&there, "barrier", 2));
    until("both wait", || last.waiting().unwrap() == 1 && there.inspect("latch").unwrap().waiters == 1);
    server.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(300));
    server.signal(Signal::CONT);
    server.run("restart");
    assert_eq!(opens.count_down().unwrap(), 0);
    last.wait().unwrap();
    assert!(waits.into_iter().all(|wait| wait.join().unwrap()));
}

#[test]
fn one_name_is_one_thing() {
    let server = Server::start();
    let client = server.client("ttl=2s");
    let held = client.lock("lock").acquire().unwrap();
    let read = client.rwlock("shared").read().acquire().unwrap();
    let permit = client.semaphore("permits", 2).acquire().unwrap();
    assert_eq!(latch(&client, "latch", 2).count_down().unwrap(), 1);
    barrier(&client, "barrier", 1).wait().unwrap();
    for name in ["lock", "shared", "permits", "barrier"] {
        let latch = latch(&client, name, 1);
        for refused in [latch.wait().map(|()| 0), latch.count_down(), latch.count()] {
            assert_eq!(kind(refused), Kind::ForeignLayout, "{name}");
        }
    }
    for name in ["lock", "shared", "permits", "latch"] {
        let barrier = barrier(&client, name, 1);
        assert_eq!(kind(barrier.wait()), Kind::ForeignLayout, "{name}");
        assert_eq!(kind(barrier.waiting()), Kind::ForeignLayout, "{name}");
    }
    for name in ["latch", "barrier"] {
        assert_eq!(kind(client.lock(name).try_acquire()), Kind::ForeignLayout, "{name}");
        assert_eq!(kind(client.lock(name).acquire()), Kind::ForeignLayout, "{name}");
        assert_eq!(kind(client.rwlock(name).read().acquire()), Kind::ForeignLayout, "{name}");
        assert_eq!(kind(client.semaphore(name, 2).acquire()), Kind::ForeignLayout, "{name}");
        assert_eq!(kind(client.lock(name).build().unwrap().inspect()), Kind::ForeignLayout, "{name}");
    }
    assert!(client.list().unwrap().contains(&"latch".into()));
    assert!(held.is_held() && read.is_held() && permit.is_held());
    let kazoo = server.client("ttl=2s&layout=kazoo");
    assert_eq!(kind(kazoo.latch("x", 1).build()), Kind::Unsupported);
    assert_eq!(kind(kazoo.barrier("x", 1).build()), Kind::Unsupported);
}
