//! What is told of locks: events with their fields, and figures that are those of what was done.
//! `docs/observability.md` has the list.

mod ports;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::blocking::{self, Client};
use lockwright::events::{self, Event, Events, Level, Value};
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::metrics::Metrics;
use lockwright::queue::OwnerId;

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(20);

/// How often the bell rang.
static RUNG: AtomicUsize = AtomicUsize::new(0);

/// Everything told in this process so far.
fn told() -> Vec<Event> {
    static ALL: OnceLock<(Arc<Events>, Mutex<Vec<Event>>)> = OnceLock::new();
    let (events, all) = ALL.get_or_init(|| {
        let events = events::collect(Some(Level::Trace), 100_000).unwrap();
        events.ring(|| {
            RUNG.fetch_add(1, Ordering::Relaxed);
        });
        events.ring(|| panic!("only the first one counts"));
        (events, Mutex::default())
    });
    let mut all = all.lock().unwrap();
    all.extend(events.wait(Duration::ZERO).unwrap());
    assert!(all.iter().all(|event| event.missed == 0));
    all.clone()
}

fn field<'a>(event: &'a Event, name: &str) -> Option<&'a Value> {
    event.fields.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

fn says(event: &Event, name: &str, text: &str) -> bool {
    field(event, name) == Some(&Value::Text(text.into()))
}

fn seconds(event: &Event, name: &str) -> f64 {
    match field(event, name) {
        Some(Value::Seconds(seconds)) => *seconds,
        other => panic!("{name} of {event:?} is {other:?}"),
    }
}

/// The first event of this kind that has these fields, once it is told.
fn heard(target: &str, fields: &[(&str, &str)]) -> Event {
    let give_up = Instant::now() + LONG;
    loop {
        let all = told();
        let fits = |event: &&Event| event.target == target && fields.iter().all(|(name, text)| says(event, name, text));
        if let Some(event) = all.iter().find(fits) {
            return event.clone();
        }
        assert!(Instant::now() < give_up, "no {target} with {fields:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn wait_until(what: impl Fn() -> bool) {
    let give_up = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < give_up, "in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn client(space: &str) -> Client {
    told();
    blocking::connect(&format!("memory://{space}")).unwrap()
}

/// A folder of this test alone.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lockwright-observe-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_lock_taken_and_given_back() {
    let client = client("plain");
    assert_eq!(client.metrics(), Metrics::default());
    let guard = client.lock("plain").ttl(LONG).acquire().unwrap();
    let metrics = client.metrics();
    assert_eq!((metrics.held, metrics.acquired, metrics.waiting, metrics.contended), (1, 1, 0, 0));
    let token = guard.token().to_string();
    let granted = heard("lockwright::grant", &[("lock", "plain"), ("token", &token), ("via", "answer")]);
    assert_eq!((granted.level, seconds(&granted, "ttl")), (Level::Debug, LONG.as_secs_f64()));
    assert!(says(&granted, "store", "memory://plain") && seconds(&granted, "waited") < 1.0);
    assert!(matches!(field(&granted, "attempt"), Some(Value::Text(short)) if short.len() == 8));
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    heard("lockwright::release", &[("lock", "plain"), ("token", &token), ("outcome", "released")]);
    // Each of them was told by this thread, which rang.
    assert!(RUNG.load(Ordering::Relaxed) >= 2);
    let metrics = client.metrics();
    assert_eq!((metrics.held, metrics.requests, metrics.round_trips), (0, 2, 2));
    assert_eq!((metrics.wait.count(), metrics.hold.count(), metrics.lost.total()), (1, 1, 0));
}

#[test]
fn those_who_wait_are_pushed_to_handed_on_and_take_turns() {
    let (one, two) = (client("turns"), client("turns"));
    let held = one.lock("turns").acquire().unwrap();
    let waiting = std::thread::spawn({
        let two = two.clone();
        move || two.lock("turns").acquire().unwrap()
    });
    heard("lockwright::wait", &[("lock", "turns")]);
    heard("lockwright::inbox", &[("store", "memory://turns"), ("state", "live")]);
    assert_eq!((two.metrics().waiting, two.metrics().contended, one.metrics().contended), (1, 1, 0));
    wait_until(|| one.inspect("turns").unwrap().waiters == 1);
    drop(held.release());
    let pushed = waiting.join().unwrap();
    let push = heard("lockwright::grant", &[("lock", "turns"), ("via", "push")]);
    assert!(two.metrics().wait.max() >= Duration::from_secs_f64(seconds(&push, "waited")));

    // Whoever waits longer than a slice is not handed the lock, but has its turn at the store.
    let next = std::thread::spawn({
        let two = two.clone();
        move || two.lock("turns").acquire().unwrap()
    });
    wait_until(|| two.metrics().waiting == 1);
    std::thread::sleep(2 * lockwright_machines::queue::SLICE);
    let token = pushed.token().to_string();
    drop(pushed.release());
    heard("lockwright::yield", &[("lock", "turns"), ("token", &token)]);
    drop(next.join().unwrap().release());

    let threads: Vec<_> = (0..4)
        .map(|_| {
            let one = one.clone();
            std::thread::spawn(move || {
                while one.metrics().hand_offs < 10 {
                    drop(one.lock("turns").acquire().unwrap().release());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    heard("lockwright::grant", &[("lock", "turns"), ("via", "hand_off")]);
    let metrics = one.metrics();
    assert_eq!((metrics.acquired, metrics.held, metrics.waiting), (metrics.wait.count(), 0, 0));
    assert_eq!(metrics.acquired, metrics.hold.count());
    assert!(metrics.contended > 0 && metrics.contended < metrics.acquired && metrics.requests < 2 * metrics.acquired);
}

#[test]
fn an_owner_that_re_enters_holds_once() {
    let client = client("again");
    let lock = client.lock("again").reentrant(OwnerId(1)).build().unwrap();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    heard("lockwright::grant", &[("lock", "again"), ("via", "reentry")]);
    let metrics = client.metrics();
    assert_eq!((metrics.held, metrics.acquired, metrics.reentered, metrics.contended), (1, 2, 1, 0));
    drop(inner.release());
    heard("lockwright::release", &[("lock", "again"), ("outcome", "kept")]);
    drop(outer.release());
    assert_eq!((client.metrics().held, client.metrics().hold.count()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_do_not_get_it_are_counted_by_reason() {
    let (holder, seeker) = (client("refused"), lockwright::connect("memory://refused").await.unwrap());
    let held = holder.lock("refused").acquire().unwrap();
    assert!(seeker.lock("refused").try_acquire().await.unwrap().is_none());
    assert!(seeker.lock("refused").timeout(SHORT).acquire().await.is_err());
    let dropped = tokio::time::timeout(SHORT, seeker.lock("refused").acquire()).await;
    assert!(dropped.is_err());
    let waiting = tokio::spawn({
        let seeker = seeker.clone();
        async move { seeker.lock("refused").acquire().await.unwrap_err() }
    });
    // The last of these is counted once the store said that it is held.
    wait_until(|| seeker.metrics().contended == 3);
    assert_eq!(seeker.metrics().waiting, 1);
    seeker.close().await;
    waiting.await.unwrap();
    for reason in ["taken", "timeout", "cancelled", "closed"] {
        let refused = heard("lockwright::refuse", &[("lock", "refused"), ("reason", reason)]);
        let waited = seconds(&refused, "waited");
        assert!(if reason == "timeout" { waited >= SHORT.as_secs_f64() } else { waited >= 0.0 }, "{refused:?}");
    }
    heard("lockwright::undo", &[("lock", "refused")]);
    let metrics = seeker.metrics();
    assert_eq!((metrics.refused, metrics.timeouts, metrics.cancelled, metrics.failed), (1, 1, 1, 1));
    assert_eq!((metrics.acquired, metrics.waiting, metrics.contended), (0, 0, 3));
    drop(held.release());
}

#[test]
fn renewals_and_losses_are_counted_and_told() {
    let client = client("losses");
    let kept = client.lock("kept").ttl(SHORT).acquire().unwrap();
    let token = kept.token().to_string();
    let renewed = heard("lockwright::renew", &[("lock", "kept"), ("token", &token), ("outcome", "renewed")]);
    assert_eq!((renewed.level, seconds(&renewed, "ttl")), (Level::Trace, SHORT.as_secs_f64()));
    assert!(client.metrics().renewals >= 1);

    let lost = |name: &str, reason: LossReason, guard: blocking::Guard| {
        wait_until(|| guard.why_lost().is_some());
        assert_eq!(guard.why_lost(), Some(reason.clone()));
        let token = guard.token().to_string();
        let told = heard("lockwright::lost", &[("lock", name), ("token", &token), ("reason", reason.code())]);
        assert_eq!((told.level, client.metrics().lost.of(&reason)), (Level::Warn, 1));
        assert!(seconds(&told, "held") >= 0.0);
    };
    lost("not renewed", LossReason::NotRenewed, client.lock("not renewed").ttl(SHORT).renew(false).acquire().unwrap());
    let held = client.lock("max hold").ttl(SHORT).max_hold(2 * SHORT).acquire().unwrap();
    lost("max hold", LossReason::MaxHold, held);
    // A push can reach only who waited before.
    let other = blocking::connect("memory://losses").unwrap();
    let held = other.lock("others").acquire().unwrap();
    assert!(client.lock("others").timeout(SHORT).acquire().is_err());
    drop(held.release());
    let held = client.lock("broken").ttl(LONG).acquire().unwrap();
    let token = held.token();
    assert!(other.break_lock("broken", token).unwrap());
    let told = heard("lockwright::break", &[("lock", "broken"), ("token", &token.to_string()), ("outcome", "broken")]);
    assert!(says(&told, "store", "memory://losses"));
    lost("broken", LossReason::Broken, held);
    drop(kept.release());
    let metrics = client.metrics();
    assert_eq!((metrics.held, metrics.lost.total(), metrics.hold.count()), (0, 3, 4));
}

#[test]
fn where_nothing_can_be_pushed_that_is_told_once() {
    told();
    let folder = Folder::new("poll");
    std::fs::write(folder.0.join("locks.db-inbox"), "").unwrap();
    let address = format!("sqlite://{}", folder.0.join("locks.db").display());
    let clients = [(); 2].map(|()| blocking::connect(&address).unwrap());
    let held = clients[0].lock("polled").acquire().unwrap();
    assert!(clients[1].lock("polled").timeout(SHORT).acquire().is_err());
    let told = heard("lockwright::poll", &[("store", &address)]);
    assert_eq!(told.level, Level::Warn);
    drop(held.release());
    clients.iter().for_each(Client::close);
}

/// A server that can be taken away.
struct Server {
    folder: Folder,
    port: u16,
    options: &'static [&'static str],
    child: Option<Child>,
}

impl Server {
    fn new() -> Self {
        Server::with("redis", &[])
    }

    fn with(folder: &str, options: &'static [&'static str]) -> Self {
        let port = ports::port();
        let mut server = Server { folder: Folder::new(folder), port, options, child: None };
        server.start();
        server
    }

    fn start(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &self.port.to_string()]);
        let started = command.args(self.options).current_dir(&self.folder.0).stdout(Stdio::null()).spawn();
        self.child =
            Some(started.expect("this test starts redis-server; install it (Debian: apt install redis-server)"));
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn an_outage_is_told_once_and_its_end_too() {
    told();
    let mut server = Server::new();
    let address = format!("redis://127.0.0.1:{}", server.port);
    let client = blocking::connect(&format!("{address}?password=hunter2"))
        .unwrap_or_else(|_| blocking::connect(&address).unwrap());
    let store = format!("{address}/0");
    let guards: Vec<_> = (0..5).map(|i| client.lock(&i.to_string()).ttl(3 * SHORT).acquire().unwrap()).collect();
    let before = client.metrics().reconnects;
    server.stop();
    let silent = heard("lockwright::store", &[("store", &store), ("state", "silent")]);
    assert_eq!(silent.level, Level::Warn);
    wait_until(|| client.metrics().lost.of(&LossReason::Expired) == 5);
    assert!(guards.iter().all(|guard| guard.why_lost() == Some(LossReason::Expired)));
    assert!(client.metrics().renewal_failures >= 5);
    heard("lockwright::renew", &[("lock", "0"), ("outcome", "failed")]);
    server.start();
    drop(client.lock("after").acquire().unwrap().release());
    let answers = heard("lockwright::store", &[("store", &store), ("state", "answers")]);
    assert!(answers.level == Level::Info && seconds(&answers, "after") > 0.0);
    assert!(client.metrics().reconnects > before);
    let of_this_one = |event: &&Event| {
        event.target == "lockwright::store" && says(event, "state", "silent") && says(event, "store", &store)
    };
    assert!(told().iter().filter(of_this_one).count() <= 4);
}

#[test]
fn a_server_that_may_drop_locks_is_told_of_once() {
    told();
    let server = Server::with("evicts", &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let client = blocking::connect(&format!("redis://127.0.0.1:{}?store_timeout=20s", server.port)).unwrap();
    let store = format!("redis://127.0.0.1:{}/0", server.port);
    for name in ["a", "b"] {
        std::thread::scope(|scope| {
            scope.spawn(|| client.lock(name).acquire().unwrap().release());
            scope.spawn(|| client.lock(&format!("{name}{name}")).acquire().unwrap().release());
        });
    }
    let evicts = [("store", &*store), ("state", "evicts"), ("policy", "allkeys-lru")];
    let told_of = heard("lockwright::store", &evicts);
    assert_eq!(told_of.level, Level::Warn);
    assert!(told_of.message.contains("noeviction"), "{}", told_of.message);
    assert_eq!(told().iter().filter(|event| evicts.iter().all(|(name, text)| says(event, name, text))).count(), 1);
}

#[test]
fn a_store_that_refuses_the_client_is_not_told_of_as_silent() {
    told();
    let server = Server::with("refuses", &["--requirepass", "open sesame"]);
    let client = blocking::connect(&format!("redis://:wrong@127.0.0.1:{}?store_timeout=20s", server.port)).unwrap();
    let store = format!("redis://127.0.0.1:{}/0", server.port);
    // Until the server has come up it does not answer.
    wait_until(|| matches!(client.lock("a").acquire(), Err(error) if error.kind() == Kind::Auth));
    let refused = blocking::connect(&format!("redis://:wrong@127.0.0.1:{}", server.port)).unwrap();
    assert!(refused.lock("a").acquire().is_err());
    let told_of = heard("lockwright::store", &[("store", &store), ("state", "refuses")]);
    assert!(told_of.level == Level::Warn && told_of.message.contains("refuses"), "{}", told_of.message);
}

#[test]
fn no_secret_is_told() {
    told();
    let address = "redis://ada:hunter2@127.0.0.1:1?store_timeout=50ms";
    assert!(blocking::connect(address).unwrap().lock("secret").acquire().is_err());
    heard("lockwright::refuse", &[("lock", "secret"), ("reason", "unavailable")]);
    heard("lockwright::store", &[("store", "redis://127.0.0.1:1/0"), ("state", "silent")]);
    assert!(!format!("{:?}", told()).contains("hunter2"));
}

#[test]
fn who_waits_for_itself_where_anybody_may_release_is_told_after_a_while() {
    told();
    let client = client("own");
    let lock = client.lock("own").build().unwrap().for_owner(OwnerId(3)).released_by_anybody();
    let guard = lock.acquire().unwrap();
    let waiting = std::thread::spawn(move || lock.acquire().map(drop));
    let warns =
        |event: &Event| event.level == Level::Warn && event.target == "lockwright::wait" && says(event, "lock", "own");
    wait_until(|| told().iter().any(warns));
    drop(guard);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_semaphore_of_another_size_says_so_once() {
    let folder = Folder::new("permits");
    let redis = std::env::var("LOCKWRIGHT_TEST_REDIS").expect("LOCKWRIGHT_TEST_REDIS is the address of a server");
    let sqlite = format!("sqlite://{}/locks.db", folder.0.display());
    for (n, uri) in ["memory://permits".to_owned(), sqlite, redis].iter().enumerate() {
        told();
        let clients = [0, 1].map(|_| blocking::connect(uri).unwrap());
        let name = format!("permits-{}-{n}", std::process::id());
        let three = clients[0].semaphore(&name, 3).acquire().unwrap();
        let taken = [0, 1].map(|_| clients[1].semaphore(&name, 5).acquire().unwrap());
        assert!(clients[1].semaphore(&name, 2).try_acquire().unwrap().is_none());
        let said = heard("lockwright::permits", &[("lock", &name)]);
        assert_eq!(
            (field(&said, "wanted"), field(&said, "permits")),
            (Some(&Value::Number(5)), Some(&Value::Number(3)))
        );
        assert_eq!(said.level, Level::Warn);
        let of_it = |event: &&Event| event.target == "lockwright::permits" && says(event, "lock", &name);
        assert_eq!(told().iter().filter(of_it).count(), 1);
        assert_eq!(clients[1].inspect(&name).unwrap().shared.unwrap().permits, Some(3));
        drop((three, taken));
        clients.iter().for_each(Client::close);
    }
}
