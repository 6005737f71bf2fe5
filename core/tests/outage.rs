//! A store that does not answer is never somebody else who holds the lock, whatever is wanted of it, and time limits
//! are kept all the same.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use lockwright::options::{AcquireOptions, ConnectOptions};
use lockwright::{Error, Kind};

const LIMIT: Duration = Duration::from_millis(300);
/// What a loaded machine may take beyond a limit; less than `store_timeout`, which is 5 s.
const SLACK: Duration = Duration::from_millis(1500);

type Verb = (&'static str, fn(&Client, Option<Duration>) -> Result<bool, Error>);

fn options(timeout: Option<Duration>) -> AcquireOptions {
    AcquireOptions { timeout, ..AcquireOptions::default() }
}

/// Each verb that waits, and whether it had what it wanted.
const VERBS: [Verb; 9] = [
    ("lock", |client, limit| client.lock("x").options(options(limit)).acquire().map(|_| true)),
    ("read", |client, limit| client.rwlock("x").read().options(options(limit)).acquire().map(|_| true)),
    ("write", |client, limit| client.rwlock("x").write().options(options(limit)).acquire().map(|_| true)),
    ("semaphore", |client, limit| client.semaphore("x", 2).options(options(limit)).acquire().map(|_| true)),
    ("latch", |client, limit| client.latch("x", 2).build()?.wait_within(limit)),
    ("barrier", |client, limit| client.barrier("x", 2).build()?.wait_within(limit).map(|arrival| arrival.is_some())),
    ("multi_lock", |client, limit| client.multi_lock_with(["x", "y"], &options(limit))?.acquire().map(|_| true)),
    ("striped", |client, limit| client.striped_with("x", 2, &options(limit))?.any().map(|segment| segment.is_some())),
    ("election", |client, limit| client.election_with("x", &options(limit)).campaign("me").map(|_| true)),
];

fn client(uri: &str) -> Client {
    Client::open(Some(uri), ConnectOptions::default()).unwrap()
}

/// A port that nobody listens at.
fn nobody() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("redis://{}", free.local_addr().unwrap())
}

fn refused(uri: &str, limit: Option<Duration>, says: &str, took_at_least: Duration, except: &[&str]) {
    let within = took_at_least + SLACK;
    let client = client(uri);
    for (verb, ask) in VERBS.into_iter().filter(|(verb, _)| !except.contains(verb)) {
        let began = Instant::now();
        let error = ask(&client, limit).expect_err(verb);
        let took = began.elapsed();
        assert!(error.kind() == Kind::Unavailable && error.to_string().contains(says), "{verb}: {error}");
        assert!(took >= took_at_least && took < within, "{verb} took {took:?}");
    }
}

#[test]
fn where_nobody_listens_every_limit_ends_with_the_cause() {
    refused(&nobody(), Some(LIMIT), "nothing listens there", LIMIT, &[]);
}

#[test]
fn where_nobody_listens_every_try_ends_at_once() {
    refused(&nobody(), Some(Duration::ZERO), "nothing listens there", Duration::ZERO, &[]);
}

#[test]
fn a_host_that_is_not_known_is_the_answer_to_a_try() {
    let client = client("redis://no-such-host.invalid");
    let began = Instant::now();
    let error = client.lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("is known"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[test]
fn where_a_server_accepts_and_says_nothing_every_limit_ends_with_the_cause() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("redis://{}", silent.local_addr().unwrap());
    // The others may go on with a party that gave up, so what became of it is waited for as long as for any answer.
    refused(&uri, Some(LIMIT), "answer in time", LIMIT, &["barrier"]);
}

#[test]
fn whoever_waits_in_slices_for_a_silent_server_looks_at_signals_in_between() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let client =
        client(&format!("redis://{}?connect_timeout=100ms&response_timeout=50ms", silent.local_addr().unwrap()));
    // Segments of the first layout are tried by one request, those of the second one after the other.
    for layout in ["native", "redisson"] {
        let options = AcquireOptions { layout: Some(layout.into()), ..options(None) };
        let began = Instant::now();
        let lock = client.lock("x").options(options.clone()).build().unwrap().begin(None).unwrap().wait(Duration::ZERO);
        let several = client.multi_lock_with(["x", "y"], &options).unwrap().begin(None).unwrap().wait(Duration::ZERO);
        let one = client.striped_with("x", 2, &options).unwrap().begin_any(None).wait(Duration::ZERO);
        assert!(lock.is_none() && several.is_none() && one.is_none(), "{layout}");
        assert!(began.elapsed() < 3 * LIMIT + SLACK, "{layout}: {:?}", began.elapsed());
    }
}

#[test]
fn a_job_for_one_is_not_taken_for_done_by_another() {
    let client = client(&nobody());
    let once = client.once_with("x", &options(Some(LIMIT))).unwrap();
    let error: Error = once.get(|| Ok(lockwright::once::Found::<()>::Missing), |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

#[tokio::test]
async fn awaiting_tells_the_same() {
    let client = client(&nobody()).into_face::<lockwright::Async>();
    for limit in [Some(LIMIT), Some(Duration::ZERO)] {
        let began = Instant::now();
        let lock = client.lock("x").build().unwrap().acquire_within(limit).await.unwrap_err();
        let gate = client.latch("x", 2).build().unwrap().wait_within(limit).await.unwrap_err();
        let several = client.multi_lock(["x", "y"]).unwrap().acquire_within(limit).await.unwrap_err();
        let one = client.striped("x", 2).unwrap().any_within(limit).await.unwrap_err();
        for error in [lock, gate, several, one] {
            assert!(error.kind() == Kind::Unavailable && error.to_string().contains("nothing listens"), "{error}");
        }
        assert!(began.elapsed() < 4 * LIMIT + SLACK, "{:?}", began.elapsed());
    }
}

#[test]
fn who_tries_while_others_ask_in_vain_is_told_so() {
    let client = client(&nobody());
    let waiting = std::thread::spawn({
        let lock = client.lock("x").timeout(Duration::from_secs(1));
        move || lock.acquire()
    });
    while client.metrics().round_trips < 2 {
        std::thread::yield_now();
    }
    let error = client.lock("x").try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), Kind::Unavailable);
}

#[test]
fn who_is_told_that_somebody_has_it_timed_out() {
    let holder = blocking::connect("memory://outage-held").unwrap();
    let guard = holder.lock("x").acquire().unwrap();
    let other = blocking::connect("memory://outage-held").unwrap();
    for client in [&holder, &other] {
        let error = client.lock("x").timeout(Duration::from_millis(50)).acquire().unwrap_err();
        assert_eq!(error.kind(), Kind::Timeout, "{error}");
    }
    let _ = guard.release().unwrap();
}
