//! The store as the driver uses it, by threads, processes and forks.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;

use super::client::SqliteStore;
use super::config::Config;
use crate::error::{Error, Kind};
use crate::lease::{Card, Inspection, ReleaseOutcome};
use crate::platform::companion::outlived_by;
use crate::platform::fork;
use crate::platform::os::fork_to;
use crate::platform::{clock, runtime};
use crate::protocol::{
    AttemptId, InboxId, Input, Intent, Op, Protocol, Reply, Request, Requests, Step, StoreEvent, Terms, Verdict,
};
use crate::session::Inbox;
use crate::share::{Primitive, Share};
use crate::stores::{LayoutChoice, Outcome, Sink, Store, Subscription, Topic, layout_of};

const TTL: Duration = Duration::from_secs(3600);
const LIMIT: Duration = Duration::from_secs(20);

/// A folder of its own for each test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lockwright-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("locks.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(path: &Path) -> Config {
    Config::new(path.to_owned(), String::new(), Duration::from_secs(1)).unwrap()
}

fn store(path: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::new(config(path)))
}

fn store_of_boot(path: &Path, clock: &str) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::new(Config { clock: Some(clock.to_owned()), ..config(path) }))
}

/// What an inbox hears.
#[derive(Default)]
struct Ears {
    heard: Mutex<VecDeque<Heard>>,
    bell: Condvar,
}

#[derive(Debug, PartialEq)]
enum Heard {
    Inbox(Inbox),
    Pushed(String, StoreEvent),
    Restarted,
}

impl Ears {
    fn put(&self, heard: Heard) {
        self.heard.lock().unwrap().push_back(heard);
        self.bell.notify_all();
    }

    fn next_within(&self, patience: Duration) -> Option<Heard> {
        let empty = |heard: &mut VecDeque<Heard>| heard.is_empty();
        self.bell.wait_timeout_while(self.heard.lock().unwrap(), patience, empty).unwrap().0.pop_front()
    }

    fn next(&self) -> Heard {
        self.next_within(LIMIT).expect("nothing was heard")
    }
}

impl Sink for Ears {
    fn inbox(&self, state: Inbox) {
        self.put(Heard::Inbox(state));
    }

    fn pushed(&self, key: &str, event: &StoreEvent) {
        self.put(Heard::Pushed(key.to_owned(), event.clone()));
    }

    fn channel(&self, key: &str, channel: &str, state: Inbox) {
        panic!("{channel} of {key} is {state:?}, and there are no channels");
    }

    fn session(&self, _: crate::time::Time) {}

    fn session_over(&self) {}

    fn unheard(&self) {}

    fn restarted(&self) {
        self.put(Heard::Restarted);
    }
}

/// One contender for one lock, without the session's care.
struct Contender {
    store: Arc<SqliteStore>,
    machine: Box<dyn Protocol>,
    terms: Terms,
    ears: Arc<Ears>,
    /// As long as it is there, it hears.
    listens: Option<Subscription>,
}

fn listen(store: &Arc<SqliteStore>, inbox: InboxId, sink: Weak<dyn Sink>) -> Subscription {
    let mut subscription = store.clone().subscribe(Topic::Inbox(inbox), sink);
    let mut work = subscription.take_work().unwrap();
    runtime::handle().unwrap().spawn(async move { work().await });
    subscription
}

impl Contender {
    fn new(store: &Arc<SqliteStore>, name: &str) -> Self {
        let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
        let terms = Terms {
            name: name.into(),
            attempt: attempt(),
            inbox: InboxId(getrandom::u64().unwrap()),
            ttl: TTL,
            claim: Duration::from_secs(1),
            card: Card { host: "h".into(), pid: std::process::id(), ..Card::default() }.encode().into(),
            fair: false,
            rank: lockwright_machines::rank::Rank::LOWEST,
        };
        let machine = layout.protocol(layout.key(name).unwrap());
        Contender { store: store.clone(), machine, terms, ears: Arc::default(), listens: None }
    }

    /// For a semaphore of one permit.
    fn of_one_permit(store: &Arc<SqliteStore>, name: &str) -> Self {
        let mut contender = Contender::new(store, name);
        let share = Share { primitive: Primitive::Semaphore, capacity: 1, ..Share::READ };
        let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap().shared(share).unwrap();
        contender.machine = layout.protocol(layout.key(name).unwrap());
        contender
    }

    /// With an inbox that listens.
    fn listening(store: &Arc<SqliteStore>, name: &str) -> Self {
        Contender::listening_at(store, name, InboxId(getrandom::u64().unwrap()))
    }

    fn listening_at(store: &Arc<SqliteStore>, name: &str, inbox: InboxId) -> Self {
        let mut contender = Contender::new(store, name);
        contender.terms.inbox = inbox;
        let ears: Arc<dyn Sink> = contender.ears.clone();
        contender.listens = Some(listen(store, inbox, Arc::downgrade(&ears)));
        assert_eq!(contender.ears.next(), Heard::Inbox(Inbox::Live));
        contender
    }

    fn try_converse(&mut self, op: Op, intent: Intent) -> Result<Step, Outcome> {
        let Step::Ask(requests) = self.machine.step(Input::Begin(intent)) else { panic!("nothing to ask") };
        match self.store.call(&requests, clock::now().after(LIMIT)).outcome {
            Outcome::Replies(replies) => Ok(self.machine.step(Input::Reply(op, &replies))),
            other => Err(other),
        }
    }

    fn converse(&mut self, op: Op, intent: Intent) -> Step {
        self.try_converse(op, intent).unwrap()
    }

    fn acquire(&mut self, wait: bool) -> Step {
        self.converse(Op::Acquire, Intent::Acquire { terms: self.terms.clone(), wait, prev: None })
    }

    fn try_lock(&mut self) -> Option<u64> {
        match self.acquire(false) {
            Step::Done(Verdict::Granted(grant)) => grant.tokens.map(|tokens| tokens.first()),
            Step::Done(Verdict::Held { .. }) => None,
            other => panic!("{other:?}"),
        }
    }

    fn queue(&mut self) -> u32 {
        match self.acquire(true) {
            Step::Wait(wait) => wait.position,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for its turn, by pushes and by a timer.
    fn lock(&mut self) -> u64 {
        self.terms.attempt = attempt();
        loop {
            let patience = match self.acquire(true) {
                Step::Done(Verdict::Granted(grant)) => return grant.tokens.unwrap().first(),
                Step::Wait(wait) => wait.remaining.min(self.terms.claim),
                other => panic!("{other:?}"),
            };
            while let Some(heard) = self.ears.next_within(patience) {
                let Heard::Pushed(_, StoreEvent::Granted { attempt, first, .. }) = heard else { continue };
                if attempt == self.terms.attempt && self.renew() {
                    return first;
                }
            }
        }
    }

    fn renew(&mut self) -> bool {
        match self.converse(Op::Renew, Intent::Renew { terms: self.terms.clone(), ttl: self.terms.ttl }) {
            Step::Done(Verdict::Renewed) => true,
            Step::Done(Verdict::Gone(_)) => false,
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self) -> ReleaseOutcome {
        match self.converse(Op::Release, Intent::Release { terms: self.terms.clone(), used: 0 }) {
            Step::Done(Verdict::Released(outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

fn attempt() -> AttemptId {
    AttemptId(u128::from(getrandom::u64().unwrap()) << 64 | u128::from(getrandom::u64().unwrap()))
}

fn ask(store: &SqliteStore, request: &Request) -> Reply {
    match store.call(&Requests::from_iter([request.clone()]), clock::now().after(LIMIT)).outcome {
        Outcome::Replies(mut replies) => replies.remove(0),
        other => panic!("{other:?}"),
    }
}

fn inspect(store: &SqliteStore, name: &str) -> Inspection {
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    layout.inspect(name, layout.key(name).unwrap()).conclude(|requests| Ok(vec![ask(store, &requests[0])])).unwrap()
}

/// A second look at the file, past the store.
fn sql(path: &Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(LIMIT).unwrap();
    db
}

fn is_sound(path: &Path) -> bool {
    let verdict: String = sql(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    verdict == "ok"
}

/// Another process: this test program again, in one of the roles below.
struct Helper {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Helper {
    fn command(program: &Path, role: &str, path: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["stores::sqlite::tests::helper", "--exact", "--nocapture", "--test-threads=1"]);
        command.env("LOCKWRIGHT_TEST_ROLE", role).env("LOCKWRIGHT_TEST_FILE", path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command
    }

    fn start(role: &str, path: &Path) -> Self {
        Helper::of(Helper::command(&std::env::current_exe().unwrap(), role, path))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Helper { child, says }
    }

    /// Its next line, past the test harness' own.
    fn says(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "the helper ended");
            if let Some(said) = line.trim_end().split("@ ").nth(1) {
                return said.to_owned();
            }
        }
    }

    /// Returns when it and all its children have ended.
    fn end(&mut self) -> String {
        let mut rest = String::new();
        drop(self.child.stdin.take());
        self.says.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Its children too, which a failed test may leave stuck.
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let _ = group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
        let _ = self.child.wait();
    }
}

/// Not a test: what the helpers do.
#[test]
fn helper() {
    let Ok(role) = std::env::var("LOCKWRIGHT_TEST_ROLE") else { return };
    let path = PathBuf::from(std::env::var_os("LOCKWRIGHT_TEST_FILE").unwrap());
    let until_told = || std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    match role.as_str() {
        "hold" => {
            let mut contender = Contender::new(&store(&path), "a");
            println!("@ {:?}", contender.try_lock());
            until_told();
        }
        "hold for two" => {
            // In our group, with which it ends should the test fail.
            let mut heir = Command::new("sleep").arg("1000").stderr(Stdio::null()).spawn().unwrap();
            outlived_by(heir.id());
            let mut contender = Contender::new(&store(&path), "a");
            let mut reader = Contender::of_one_permit(&store(&path), "s");
            println!("@ {} {:?} {:?}", heir.id(), contender.try_lock().is_some(), reader.try_lock().is_some());
            let _ = heir.wait();
        }
        "wait" => {
            let mut contender = Contender::listening(&store(&path), "a");
            println!("@ {}", contender.queue());
            until_told();
        }
        "write" => {
            let db = sql(&path);
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            println!("@ writing");
            until_told();
        }
        "try" => {
            let mut contender = Contender::new(&store(&path), "a");
            let intent = Intent::Acquire { terms: contender.terms.clone(), wait: false, prev: None };
            match contender.try_converse(Op::Acquire, intent) {
                Err(Outcome::NotSent(error)) => println!("@ {error}"),
                other => println!("@ {other:?}"),
            }
        }
        "count" => {
            let store = store(&path);
            let mut contender = Contender::listening(&store, "a");
            println!("@ ready");
            until_told();
            for _ in 0..EACH {
                count(&path, &mut contender);
            }
        }
        "try write" => {
            let db = rusqlite::Connection::open(&path).unwrap();
            db.busy_timeout(Duration::ZERO).unwrap();
            let begun = db.execute_batch("BEGIN IMMEDIATE").is_ok();
            println!("@ {}", if begun { "free" } else { "busy" });
        }
        "look" => {
            let rows: i64 = sql(&path).query_row("SELECT count(*) FROM locks", [], |row| row.get(0)).unwrap();
            println!("@ {rows}");
        }
        "open" => {
            println!("@ ready");
            until_told();
            let mine = std::process::id().to_string();
            println!("@ {:?}", Contender::new(&store(&path), &mine).try_lock().is_some());
        }
        "fork" => fork_and_leave(&path),
        "fork in a write" => fork_in_a_write(&path),
        "fork with others' descriptors" => fork_with_others_descriptors(),
        other => panic!("{other}"),
    }
}

const EACH: u64 = 100;
const CHILDREN: u64 = 4;

/// Adds one to this process' number in a file that all share, in a way that loses additions unless the lock excludes.
fn count(path: &Path, contender: &mut Contender) {
    let token = contender.lock();
    let mut counts = counted(path);
    let last = counts.insert("token".into(), token).unwrap_or(0);
    assert!(token > last, "token {token} after {last}");
    *counts.entry(std::process::id().to_string()).or_insert(0) += 1;
    let next = path.with_file_name(format!("counts-{}", std::process::id()));
    let lines: Vec<_> = counts.iter().map(|(who, count)| format!("{who} {count}\n")).collect();
    std::fs::write(&next, lines.concat()).unwrap();
    std::fs::rename(next, path.with_file_name("counts")).unwrap();
    assert_eq!(contender.release(), ReleaseOutcome::Released);
}

/// How often each process was counted, and the last token under `token`.
fn counted(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path.with_file_name("counts")).unwrap_or_default();
    let read = |line: &str| line.split_once(' ').map(|(who, count)| (who.to_owned(), count.parse().unwrap()));
    text.lines().filter_map(read).collect()
}

fn total(mut counts: BTreeMap<String, u64>) -> u64 {
    counts.remove("token");
    counts.values().sum()
}

/// Uses the file, forks, and leaves while the children use it.
fn fork_and_leave(path: &Path) {
    let store = store(path);
    let mut contender = Contender::listening(&store, "a");
    count(path, &mut contender);
    let mut held = Contender::new(&store, "held by the parent");
    held.try_lock().unwrap();
    // A thread that is inside SQLite most of the time, whatever moment the forks choose.
    let looks = Arc::new(AtomicU32::new(0));
    let (other, counted) = (store.clone(), looks.clone());
    std::thread::spawn(move || {
        while inspect(&other, "a").name == "a" {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    for _ in 0..CHILDREN {
        let before = looks.load(Ordering::Relaxed);
        while looks.load(Ordering::Relaxed) < before + 10 {
            std::hint::spin_loop();
        }
        fork_to(|| {
            let inherited = contender.store.call(&Requests::new(), clock::now());
            assert!(matches!(inherited.outcome, Outcome::NotSent(error) if error.kind() == Kind::Forked));
            let mut contender = Contender::listening(&self::store(path), "a");
            for n in 0..EACH {
                count(path, &mut contender);
                if n == EACH / 2 {
                    // One grandchild more, from a process that is itself a child with a connection of its own.
                    fork_to(|| {
                        count(path, &mut Contender::listening(&self::store(path), "a"));
                        0
                    });
                }
            }
            0
        });
        count(path, &mut contender);
    }
    assert_eq!(held.release(), ReleaseOutcome::Released, "a child freed what the parent held");
}

/// Forks while another thread's write does not end, as on a disk that stalls.
fn fork_in_a_write(path: &Path) {
    let store = store(path);
    let mut contender = Contender::new(&store, "a");
    contender.try_lock().unwrap();
    let (entered, is_inside) = std::sync::mpsc::channel();
    let (leave, told) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        let gate = fork::gate();
        entered.send(()).unwrap();
        let _ = told.recv();
        drop(gate);
    });
    is_inside.recv().unwrap();
    let began = Instant::now();
    let child = fork_to(|| {
        for store in [&store, &self::store(path)] {
            let answered = store.call(&Requests::new(), clock::now()).outcome;
            let Outcome::NotSent(error) = answered else { return 1 };
            if error.kind() != Kind::Forked || !error.context().contains("cannot use lock files") {
                return 2;
            }
        }
        drop(self::store(path));
        0
    });
    let waited = began.elapsed();
    let (_, status) = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    leave.send(()).unwrap();
    writing.join().unwrap();
    println!("@ {} {:?} {}", waited < LIMIT / 2, status.exit_status(), contender.renew());
}

/// Forks after somebody closed a descriptor of ours by its number, and it was given to something else.
fn fork_with_others_descriptors() {
    let (ours, kept) = UnixDatagram::pair().unwrap();
    let number = ours.as_raw_fd();
    let registered = (fork::register(&ours), fork::register(&kept));
    drop(ours);
    let theirs = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(theirs.as_raw_fd(), number);
    let is_open = |fd: i32| i32::from(Path::new(&format!("/proc/self/fd/{fd}")).exists());
    let child = fork_to(|| is_open(number) + 2 * is_open(kept.as_raw_fd()));
    let (_, status) = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
    println!("@ {:?}", status.exit_status());
    drop(registered);
}

#[test]
fn a_fork_does_not_wait_for_a_stalled_write_and_its_child_is_told() {
    let folder = Folder::new();
    assert_eq!(Helper::start("fork in a write", &folder.file()).says(), "true Some(0) true");
}

#[test]
#[cfg(target_os = "linux")]
fn a_child_closes_nothing_that_is_not_ours_any_more() {
    let folder = Folder::new();
    assert_eq!(Helper::start("fork with others' descriptors", &folder.file()).says(), "Some(1)");
}

#[test]
fn processes_that_fork_exclude_each_other_while_the_parent_leaves() {
    let folder = Folder::new();
    let mut helper = Helper::start("fork", &folder.file());
    drop(helper.child.stdin.take());
    assert!(helper.child.wait().unwrap().success());
    // Whoever opens or closes a file that nobody else seems to have open makes its shared memory anew, or removes its
    // log: the end of it, if the children only believed that they have it open.
    let wanted = 1 + CHILDREN * (1 + EACH + 1);
    let (began, mut opened) = (Instant::now(), 0);
    while total(counted(&folder.file())) < wanted {
        assert!(began.elapsed() < 3 * LIMIT, "the children are stuck");
        let db = sql(&folder.file());
        let rows: i64 = db.query_row("SELECT count(*) FROM locks", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 2);
        opened += 1;
    }
    let said = helper.end();
    let counts = counted(&folder.file());
    let mut later = Contender::new(&store(&folder.file()), "a");
    assert!(later.try_lock().unwrap() > counts["token"]);
    assert_eq!(total(counts), wanted, "{said}");
    assert!(opened > 10, "{opened}");
    assert!(is_sound(&folder.file()));
}

#[test]
fn processes_exclude_each_other_while_some_are_killed() {
    let folder = Folder::new();
    let mut helpers: Vec<_> = (0..CHILDREN).map(|_| Helper::start("count", &folder.file())).collect();
    let mut victims: Vec<_> = (0..CHILDREN).map(|_| Helper::start("count", &folder.file())).collect();
    for helper in helpers.iter_mut().chain(&mut victims) {
        assert_eq!(helper.says(), "ready");
        drop(helper.child.stdin.take());
    }
    for (n, victim) in victims.iter_mut().enumerate() {
        let goal = u64::try_from(n + 1).unwrap() * 20;
        while total(counted(&folder.file())) < goal {
            std::thread::yield_now();
        }
        victim.child.kill().unwrap();
        victim.child.wait().unwrap();
    }
    for helper in &mut helpers {
        let said = helper.end();
        assert_eq!(counted(&folder.file()).get(&helper.child.id().to_string()), Some(&EACH), "{said}");
    }
    assert!(is_sound(&folder.file()));
}

#[test]
fn processes_may_make_the_file_all_at_once() {
    let folder = Folder::new();
    for round in 0..40 {
        let path = folder.0.join(format!("{round}.db"));
        let mut helpers: Vec<_> = (0..6).map(|_| Helper::start("open", &path)).collect();
        helpers.iter_mut().for_each(|helper| assert_eq!(helper.says(), "ready"));
        helpers.iter_mut().for_each(|helper| drop(helper.child.stdin.take()));
        helpers.iter_mut().for_each(|helper| assert_eq!(helper.says(), "true"));
    }
}

#[test]
fn a_release_is_pushed_to_the_next_in_line() {
    let folder = Folder::new();
    let (ours, theirs) = (store(&folder.file()), store(&folder.file()));
    let mut holder = Contender::new(&ours, "a");
    let first_token = holder.try_lock().unwrap();
    let mut waiters: Vec<_> = (0..3).map(|_| Contender::listening(&theirs, "a")).collect();
    let positions: Vec<_> = waiters.iter_mut().map(Contender::queue).collect();
    assert_eq!(positions, [0, 1, 2]);
    assert_eq!(waiters[1].queue(), 1, "asking again keeps the place");
    assert_eq!(inspect(&ours, "a").waiters, 3);
    assert_eq!(holder.release(), ReleaseOutcome::Released);
    let mut last = first_token;
    for waiter in &mut waiters {
        let mut heard = waiter.ears.next();
        if let Heard::Pushed(_, StoreEvent::Next { tail }) = heard {
            assert!(tail == waiter.terms.attempt.tail() && last > first_token, "only behind a hand-off");
            heard = waiter.ears.next();
        }
        let Heard::Pushed(key, StoreEvent::Granted { attempt, first, at, .. }) = heard else { panic!("{heard:?}") };
        assert_eq!((key.as_str(), attempt), ("a", waiter.terms.attempt));
        assert!(first > last && at.0 > 0);
        last = first;
        assert!(waiter.renew());
        assert_eq!(waiter.release(), ReleaseOutcome::Released);
    }
    assert_eq!(holder.release(), ReleaseOutcome::Expired);
    assert!(inspect(&ours, "a").holder.is_none());
}

#[test]
fn a_lock_that_is_broken_tells_its_holder() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::listening(&store, "a");
    let token = holder.try_lock().unwrap();
    let seen = inspect(&store, "a").holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (token, std::process::id()));
    let layout = layout_of(store.layouts(), LayoutChoice { layout: Some("native"), format: None }).unwrap();
    for (token, is_broken) in [(token - 1, false), (token, true)] {
        let inquiry = layout.break_hold("a".into(), token);
        assert_eq!(inquiry.conclude(|requests| Ok(vec![ask(&store, &requests[0])])).unwrap(), is_broken);
    }
    let told = Heard::Pushed("a".into(), StoreEvent::Broken { attempt: holder.terms.attempt });
    assert_eq!(holder.ears.next(), told);
    assert!(!holder.renew());
    assert_eq!(
        layout_of(store.layouts(), LayoutChoice { layout: Some("shedlock"), format: None }).unwrap_err().kind(),
        Kind::Unsupported
    );
}

#[test]
fn a_holder_that_was_killed_is_taken_over_at_once() {
    let folder = Folder::new();
    let mut helper = Helper::start("hold", &folder.file());
    assert!(helper.says().starts_with("Some"));
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "a");
    assert_eq!(contender.try_lock(), None);
    assert!(inspect(&store, "a").holder.is_some());
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    assert!(inspect(&store, "a").holder.is_none());
    assert!(contender.try_lock().is_some());
}

#[test]
fn whoever_acts_for_a_holder_after_its_death_keeps_its_locks() {
    let folder = Folder::new();
    let mut helper = Helper::start("hold for two", &folder.file());
    let said = helper.says();
    let heir = said.strip_suffix(" true true").unwrap().parse().unwrap();
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    let store = store(&folder.file());
    let mut contenders = [Contender::new(&store, "a"), Contender::of_one_permit(&store, "s")];
    assert!(contenders.iter_mut().all(|contender| contender.try_lock().is_none()));
    assert!(inspect(&store, "a").holder.is_some());
    rustix::process::kill_process(rustix::process::Pid::from_raw(heir).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    let began = Instant::now();
    for contender in &mut contenders {
        while contender.try_lock().is_none() {
            assert!(began.elapsed() < LIMIT);
        }
    }
}

#[test]
fn a_waiter_that_was_killed_is_passed_over() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let mut helper = Helper::start("wait", &folder.file());
    assert_eq!(helper.says(), "0");
    let mut next = Contender::listening(&store, "a");
    assert_eq!(next.queue(), 1);
    let inboxes = || std::fs::read_dir(folder.0.join("locks.db-inbox")).unwrap().count();
    assert_eq!(inboxes(), 2);
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    let _ = holder.release();
    assert!(matches!(next.ears.next(), Heard::Pushed(..)));
    assert_eq!(inboxes(), 1, "the socket of the dead is removed");
}

#[test]
fn a_lock_of_another_boot_is_not_taken_at_once() {
    let folder = Folder::new();
    let mut before = Contender::new(&store_of_boot(&folder.file(), "before"), "a");
    before.terms.ttl = Duration::from_millis(50);
    before.try_lock().unwrap();
    let mut after = Contender::new(&store(&folder.file()), "a");
    let began = Instant::now();
    assert_eq!(after.try_lock(), None);
    while after.try_lock().is_none() {
        std::thread::yield_now();
    }
    assert!(began.elapsed() >= Duration::from_millis(50));
}

#[test]
fn an_inbox_ends_with_whoever_listens() {
    let folder = Folder::new();
    let contender = Contender::listening(&store(&folder.file()), "a");
    let socket = folder.0.join("locks.db-inbox").join(contender.terms.inbox.to_string());
    assert_eq!(std::fs::metadata(socket.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    // What nobody of ours sends is ignored.
    UnixDatagram::unbound().unwrap().send_to(b"granted nonsense", &socket).unwrap();
    drop(contender);
    while socket.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn sockets_left_behind_are_removed_in_time() {
    let folder = Folder::new();
    let store = store(&folder.file());
    Contender::new(&store, "a").try_lock().unwrap();
    let mut waiter = Helper::start("wait", &folder.file());
    waiter.says();
    waiter.child.kill().unwrap();
    waiter.child.wait().unwrap();
    let inboxes = || std::fs::read_dir(folder.0.join("locks.db-inbox")).unwrap().count();
    assert_eq!(inboxes(), 1);
    let clients: Vec<_> = (0..8).map(|n| Contender::listening_at(&store, "a", InboxId(n))).collect();
    assert_eq!(inboxes(), clients.len());
}

#[test]
fn an_inbox_whose_socket_was_removed_opens_again() {
    let folder = Folder::new();
    let contender = Contender::listening(&store(&folder.file()), "a");
    std::fs::remove_dir_all(folder.0.join("locks.db-inbox")).unwrap();
    assert_eq!(contender.ears.next(), Heard::Inbox(Inbox::Live));
}

#[test]
fn where_no_inbox_can_be_waiters_are_told() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("locks.db-inbox"), "").unwrap();
    let store = store(&folder.file());
    let ears = Arc::new(Ears::default());
    let sink: Arc<dyn Sink> = ears.clone();
    let _listens = listen(&store, InboxId(1), Arc::downgrade(&sink));
    assert_eq!(ears.next(), Heard::Inbox(Inbox::Unavailable));
    std::fs::remove_file(folder.0.join("locks.db-inbox")).unwrap();
    assert_eq!(ears.next(), Heard::Inbox(Inbox::Live));
    // Where others may write, what is pushed may be invented.
    std::fs::remove_dir_all(folder.0.join("locks.db-inbox")).unwrap();
    std::fs::create_dir(folder.0.join("locks.db-inbox")).unwrap();
    std::fs::set_permissions(folder.0.join("locks.db-inbox"), std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(ears.next(), Heard::Inbox(Inbox::Unavailable));
}

#[test]
fn a_path_may_be_longer_than_a_socket_address() {
    let folder = Folder::new();
    let deep = folder.0.join("x".repeat(200)).join("y".repeat(200));
    std::fs::create_dir_all(&deep).unwrap();
    let store = store(&deep.join("locks.db"));
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let mut waiter = Contender::listening(&store, "a");
    waiter.queue();
    let _ = holder.release();
    assert!(matches!(waiter.ears.next(), Heard::Pushed(..)));
}

#[test]
fn a_file_that_was_replaced_is_noticed() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::listening(&store, "a");
    holder.try_lock().unwrap();
    assert!(holder.renew());
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{end}", folder.file().display())).unwrap();
    }
    let mut thief = Contender::new(&self::store(&folder.file()), "a");
    thief.try_lock().unwrap();
    let intent = Intent::Renew { terms: holder.terms.clone(), ttl: TTL };
    let Err(Outcome::NotSent(error)) = holder.try_converse(Op::Renew, intent) else { panic!() };
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.context().contains("replaced"), "{error}");
    assert!(!holder.renew(), "the new file knows nothing of the hold");
    // The inbox notices too, so that every guard of the client is looked after.
    while holder.ears.next() != Heard::Restarted {}
}

#[test]
fn a_file_that_stays_busy_is_unavailable() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "a");
    contender.try_lock().unwrap();
    let mut helper = Helper::start("write", &folder.file());
    assert_eq!(helper.says(), "writing");
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let Step::Ask(renewal) =
        contender.machine.step(Input::Begin(Intent::Renew { terms: contender.terms.clone(), ttl: TTL }))
    else {
        panic!()
    };
    let (began, limit) = (Instant::now(), Duration::from_millis(60));
    let Outcome::NotSent(error) = store.call(&renewal, clock::now().after(limit)).outcome else { panic!() };
    assert!(began.elapsed() >= limit);
    assert_eq!((error.kind(), error.operation()), (Kind::Unavailable, "renew"));
    assert!(error.store().is_some_and(|store| store.ends_with("/locks.db")), "{error}");
    assert!(inspect(&store, "a").holder.is_some(), "looking needs no writing");
    let _ = ask(&store, &layout.list().asks()[0]);
    helper.end();
    assert!(contender.renew());
}

#[test]
fn a_disk_that_is_full_changes_nothing() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "a");
    contender.try_lock().unwrap();
    store.file.with_database(|db| {
        let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        db.pragma_update(None, "max_page_count", pages).unwrap();
    });
    let error = (0..100).find_map(|n| {
        let mut next = Contender::new(&store, &format!("{n}{}", "x".repeat(1000)));
        let terms = next.terms.clone();
        match next.try_converse(Op::Acquire, Intent::Acquire { terms, wait: false, prev: None }) {
            Ok(_) => None,
            Err(Outcome::NotSent(error)) => Some(error),
            Err(other) => panic!("{other:?}"),
        }
    });
    let error = error.unwrap();
    assert_eq!((error.kind(), error.operation()), (Kind::Unavailable, "acquire"));
    assert!(error.context().contains("full"), "{error}");
    assert!(contender.renew());
}

#[test]
fn a_write_that_fails_in_its_commit_may_have_been_done() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "a");
    assert!(inspect(&store, "a").holder.is_none());
    let db = sql(&folder.file());
    db.execute_batch(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         CREATE TRIGGER spoil AFTER INSERT ON locks BEGIN INSERT INTO child VALUES (1); END",
    )
    .unwrap();
    store.file.with_database(|db| db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true).map(drop).unwrap());
    let intent = Intent::Acquire { terms: contender.terms.clone(), wait: false, prev: None };
    let before = clock::now();
    let Err(Outcome::Unknown { void_after, .. }) = contender.try_converse(Op::Acquire, intent) else { panic!() };
    assert!(void_after >= before);
    db.execute_batch("DROP TRIGGER spoil; DROP TABLE child; DROP TABLE parent").unwrap();
    assert!(inspect(&store, "a").holder.is_none(), "this one was rolled back");
    assert!(contender.try_lock().is_some());
}

fn refusal(path: &Path) -> Error {
    let store = store(path);
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let requests = Requests::from_iter(layout.inspect("a", "a".into()).asks().iter().cloned());
    match store.call(&requests, clock::now().after(LIMIT)).outcome {
        Outcome::NotSent(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_a_lock_file_is_refused_and_left_alone() {
    let folder = Folder::new();
    let file = |name: &str, content: &[u8]| {
        let path = folder.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let note = file("note", &b"not a database at all, but long enough to be taken for one; ".repeat(20));
    let other = folder.0.join("other.db");
    sql(&other).execute_batch("CREATE TABLE accounts (name TEXT)").unwrap();
    let newer = folder.0.join("newer.db");
    Contender::new(&store(&newer), "a").try_lock().unwrap();
    sql(&newer).pragma_update(None, "user_version", 7).unwrap();
    let damaged = folder.0.join("damaged.db");
    Contender::new(&store(&damaged), "a").try_lock().unwrap();
    sql(&damaged).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    let header = bytes[..100].to_owned();
    bytes.fill(0xAA);
    bytes[..100].copy_from_slice(&header);
    std::fs::write(&damaged, bytes).unwrap();
    let cases = [
        (folder.0.clone(), Kind::InvalidConfig, "folder"),
        (PathBuf::from("/dev/null"), Kind::InvalidConfig, "regular file"),
        (folder.0.join("missing/locks.db"), Kind::InvalidConfig, "does not exist"),
        (note.join("locks.db"), Kind::InvalidConfig, "does not exist"),
        (note.clone(), Kind::InvalidConfig, "not a lock file"),
        (other.clone(), Kind::InvalidConfig, "another program's"),
        (newer, Kind::ForeignLayout, "another version"),
        (damaged, Kind::Protocol, "damaged"),
    ];
    let before = (std::fs::read(&note).unwrap(), std::fs::read(&other).unwrap());
    for (path, kind, says) in cases {
        let error = refusal(&path);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.context().contains(says), "{error}");
    }
    assert!(before == (std::fs::read(&note).unwrap(), std::fs::read(&other).unwrap()));
}

#[test]
fn a_file_without_the_right_to_write_is_refused() {
    let folder = Folder::new();
    Contender::new(&store(&folder.file()), "a").try_lock().unwrap();
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let program = std::env::current_exe().unwrap();
    let mut attempts = vec![];
    for (file, around) in [(0o444, 0o777), (0o000, 0o777), (0o666, 0o555)] {
        open(&folder.file(), file);
        open(&folder.0, around);
        let mut command = Helper::command(&program, "try", &folder.file());
        if rustix::process::geteuid().is_root() {
            // To root everything is allowed, so somebody else tries, with a copy of the program where it can be read.
            let copy = folder.0.join("program");
            std::fs::copy(&program, &copy).unwrap();
            command = Helper::command(&copy, "try", &folder.file());
            command.uid(65534).gid(65534);
        }
        for end in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", folder.file().display()));
        }
        attempts.push(Helper::of(command).says());
    }
    open(&folder.0, 0o700);
    for said in attempts {
        assert!(said.starts_with("auth: ") && said.contains("cannot be written"), "{said}");
    }
}

#[test]
fn requests_may_be_awaited_and_travel_together() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holders: Vec<_> = (0..3).map(|n| Contender::new(&store, &format!("lock {n}"))).collect();
    holders[0].try_lock().unwrap();
    holders[2].try_lock().unwrap();
    let renewals: Vec<_> = holders
        .iter_mut()
        .map(|holder| {
            let intent = Intent::Renew { terms: holder.terms.clone(), ttl: TTL };
            let Step::Ask(mut requests) = holder.machine.step(Input::Begin(intent)) else { panic!() };
            requests.remove(0)
        })
        .collect();
    let many: Requests = renewals.iter().cycle().take(1000).cloned().collect();
    let wanted: Vec<_> = [1, 0, 1].into_iter().map(Reply::Int).cycle().take(1000).collect();
    let answered = runtime::handle().unwrap().block_on(store.clone().call_batch(many, clock::now().after(LIMIT)));
    assert!(matches!(answered.outcome, Outcome::Replies(replies) if replies == wanted));
    let one = Requests::from_iter([renewals[0].clone()]);
    let answered = runtime::handle().unwrap().block_on(store.call_async(&one, clock::now().after(LIMIT)));
    assert!(matches!(answered.outcome, Outcome::Replies(replies) if replies == [Reply::Int(1)]));
}

#[test]
fn the_embedded_file_makes_its_folder() {
    let folder = Folder::new();
    let path = folder.0.join("state/lockwright/locks.db");
    let store = Arc::new(SqliteStore::new(Config { makes_folder: true, ..config(&path) }));
    Contender::new(&store, "a").try_lock().unwrap();
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
}

fn is_refused_as_unsupported(store: &SqliteStore, says: &str) {
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let requests = Requests::from_iter(layout.inspect("a", "a".into()).asks().iter().cloned());
    let Outcome::NotSent(error) = store.call(&requests, clock::now().after(LIMIT)).outcome else { panic!() };
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.context().contains(says), "{error}");
}

#[test]
fn a_file_with_two_names_is_refused_also_while_it_is_in_use() {
    let folder = Folder::new();
    let (inner, other) = (folder.0.join("inner"), folder.0.join("other.db"));
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("locks.db");
    let store = store(&path);
    let mut contender = Contender::new(&store, "a");
    contender.try_lock().unwrap();
    std::fs::hard_link(&path, &other).unwrap();
    is_refused_as_unsupported(&store, "2 names (hard links)");
    is_refused_as_unsupported(&self::store(&path), "remove the other names");
    is_refused_as_unsupported(&self::store(&other), "remove the other names");
    std::fs::remove_file(&other).unwrap();
    assert!(contender.renew(), "with one name it goes on as if nothing had happened");
    assert!(!inner.join("other.db-wal").exists());
}

/// What is mounted here is seen by nobody else, and ends with the process.
fn without_mounts_of_its_own(test: &str) -> bool {
    const OWN: &str = "LOCKWRIGHT_TEST_OWN_MOUNTS";
    if std::env::var_os(OWN).is_some() {
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let may = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: `unshare -m` gives no mounts of our own here");
        return true;
    }
    let test = format!("stores::sqlite::tests::{test}");
    let inside =
        Command::new("unshare").arg("-m").arg(program).args([&test, "--exact"]).env(OWN, "1").output().unwrap();
    assert!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stdout));
    true
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_mounted_by_itself_is_refused_also_while_it_is_in_use() {
    if without_mounts_of_its_own("a_file_that_is_mounted_by_itself_is_refused_also_while_it_is_in_use") {
        return;
    }
    let folder = Folder::new();
    let mount = |from: &Path, to: &Path| {
        assert!(Command::new("mount").arg("--bind").args([from, to]).status().unwrap().success());
    };
    let unmount = |path: &Path| assert!(Command::new("umount").arg(path).status().unwrap().success());
    Contender::new(&store(&folder.file()), "a").try_lock().unwrap();
    let container = folder.0.join("container");
    std::fs::create_dir(&container).unwrap();
    std::fs::write(container.join("locks.db"), "").unwrap();
    mount(&folder.file(), &container.join("locks.db"));
    is_refused_as_unsupported(&store(&container.join("locks.db")), "mount the folder, not the file");
    unmount(&container.join("locks.db"));
    assert_eq!(std::fs::read_dir(&container).unwrap().count(), 1, "nothing was written beside it");
    // The folder may be mounted anywhere.
    let there = container.join("there");
    std::fs::create_dir(&there).unwrap();
    mount(&folder.0, &there);
    let store = store(&there.join("locks.db"));
    assert_eq!(Contender::new(&store, "a").try_lock(), None);
    mount(&there.join("locks.db"), &there.join("locks.db"));
    is_refused_as_unsupported(&store, "mount the folder, not the file");
    unmount(&there.join("locks.db"));
    assert!(inspect(&store, "a").holder.is_some());
    drop(store);
    unmount(&there);
}

#[test]
fn a_link_to_the_file_has_its_inboxes() {
    let folder = Folder::new();
    let link = folder.0.join("link.db");
    std::os::unix::fs::symlink("locks.db", &link).unwrap();
    let (direct, linked) = (store(&folder.file()), store(&link));
    let mut holder = Contender::new(&direct, "a");
    // The first of both may well wait before the file is opened, or even made.
    let mut waiter = Contender::listening(&linked, "a");
    holder.try_lock().unwrap();
    waiter.queue();
    let _ = holder.release();
    assert!(matches!(waiter.ears.next(), Heard::Pushed(..)));
    assert!(!folder.0.join("link.db-inbox").exists() && !folder.0.join("link.db-wal").exists());
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn another_library_of_this_process_is_refused_what_is_locked() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let index = std::fs::File::open(format!("{}-shm", folder.file().display())).unwrap();
    let lock = |how| rustix::fs::fcntl_lock(&index, how);
    use rustix::fs::FlockOperation;
    store.file.with_database(|db| {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(lock(FlockOperation::NonBlockingLockExclusive).is_err());
        assert!(lock(FlockOperation::NonBlockingLockShared).is_err());
        // What it has and lets go of is not ours.
        lock(FlockOperation::Unlock).unwrap();
        assert!(lock(FlockOperation::NonBlockingLockShared).is_err());
        assert_eq!(Helper::start("try write", &folder.file()).says(), "busy");
        db.execute_batch("COMMIT").unwrap();
    });
    assert!(lock(FlockOperation::NonBlockingLockShared).is_ok());
    lock(FlockOperation::Unlock).unwrap();
    assert!(holder.renew());
}

#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn nobody_removes_the_log_of_a_process_that_lost_sqlites_locks() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let beside = |end: &str| PathBuf::from(format!("{}{end}", folder.file().display()));
    let inodes = || ["-wal", "-shm"].map(|end| std::fs::metadata(beside(end)).unwrap().ino());
    let before = inodes();
    // What another SQLite library of this process does, Python's for one: it lets go of all that ours has locked.
    for end in ["", "-wal", "-shm"] {
        drop(std::fs::File::open(beside(end)).unwrap());
    }
    // Another process would take it for a file that nobody has open: make its index anew, and remove its log in the
    // end.
    assert_eq!(Helper::start("look", &folder.file()).says(), "1");
    assert_eq!(inodes(), before);
    assert_eq!(Contender::new(&self::store(&folder.file()), "a").try_lock(), None);
    assert!(holder.renew());
    let said = Helper::start("try", &folder.file()).says();
    assert!(said.starts_with("Ok(Done(Held"), "{said}");
}

#[test]
fn a_file_with_what_is_not_ours_in_it_is_refused() {
    let folder = Folder::new();
    let cases = [
        (
            "CREATE TRIGGER spoil AFTER INSERT ON locks BEGIN DELETE FROM locks; END",
            "trigger \"spoil\"",
            "DROP TRIGGER",
        ),
        ("CREATE VIEW spoil AS SELECT * FROM locks", "view \"spoil\"", "DROP VIEW"),
        ("CREATE TABLE more (x)", "table \"more\"", "DROP TABLE"),
        ("CREATE UNIQUE INDEX one ON locks (waiting)", "index \"one\"", "DROP INDEX"),
        ("ALTER TABLE locks ADD COLUMN more INTEGER", "table \"locks\"", "not as Lockwright makes it"),
        ("DROP INDEX gates_by_end", "index \"gates_by_end\"", "not as Lockwright makes it"),
    ];
    for (number, (change, what, says)) in cases.into_iter().enumerate() {
        let path = folder.0.join(format!("{number}.db"));
        Contender::new(&store(&path), "a").try_lock().unwrap();
        sql(&path).execute_batch(change).unwrap();
        let error = refusal(&path);
        assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
        assert!(error.context().contains(what) && error.context().contains(says), "{error}");
    }
    Contender::new(&store(&folder.file()), "a").try_lock().unwrap();
    // What says nothing, and what an administrator may have looked for.
    let comment = "UPDATE sqlite_schema SET sql = replace(sql, 'waiting INTEGER', '-- ;\n  waiting   INTEGER') WHERE name = 'locks'";
    let db = sql(&folder.file());
    db.execute_batch(&format!("PRAGMA writable_schema = ON; {comment}; PRAGMA writable_schema = RESET; ANALYZE"))
        .unwrap();
    assert_eq!(Contender::new(&store(&folder.file()), "a").try_lock(), None);
}

#[test]
fn nothing_that_somebody_puts_into_the_file_is_executed() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    sql(&folder.file())
        .execute_batch(&format!("CREATE TRIGGER hang AFTER UPDATE ON locks BEGIN SELECT ({endless}); END"))
        .unwrap();
    let began = Instant::now();
    assert!(holder.renew());
    assert!(began.elapsed() < LIMIT / 2);
}

#[test]
fn a_call_ends_at_its_limit_whatever_is_in_the_file() {
    let folder = Folder::new();
    let store = store(&folder.file());
    Contender::new(&store, "a").try_lock().unwrap();
    let (began, limit) = (Instant::now(), Duration::from_millis(200));
    store.file.with_database_until(clock::now().after(limit), |db| {
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        let error = db.query_row(endless, [], |_| Ok(())).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
    });
    assert!(began.elapsed() >= limit);
    assert!(inspect(&store, "a").holder.is_some());
}

#[test]
fn a_new_file_is_readable_for_its_user_alone() {
    let folder = Folder::new();
    Contender::new(&store(&folder.file()), "a").try_lock().unwrap();
    let mode = |end: &str| std::fs::metadata(format!("{}{end}", folder.file().display())).unwrap().mode() & 0o777;
    assert_eq!(["", "-wal", "-shm"].map(mode), [0o600; 3]);
    let shared = folder.0.join("shared.db");
    std::fs::write(&shared, "").unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o664)).unwrap();
    Contender::new(&store(&shared), "a").try_lock().unwrap();
    assert_eq!(std::fs::metadata(&shared).unwrap().mode() & 0o777, 0o664, "what is there stays as it is");
}

#[test]
fn only_our_own_sockets_are_removed() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    let mut waiter = Contender::new(&store, "a");
    waiter.queue();
    let victim = folder.0.join("victim");
    std::fs::create_dir(&victim).unwrap();
    let inbox = folder.0.join("locks.db-inbox");
    let name = waiter.terms.inbox.to_string();
    let socket = |folder: &Path| drop(UnixDatagram::bind(folder.join(&name)).unwrap());
    // A link to somebody's folder, and what anybody may have put into it; a file in ours.
    socket(&victim);
    std::os::unix::fs::symlink(&victim, &inbox).unwrap();
    assert!(store.file.inboxes().reach(waiter.terms.inbox).is_none());
    store.file.inboxes().remove(waiter.terms.inbox);
    assert!(victim.join(&name).exists());
    std::fs::remove_file(&inbox).unwrap();
    std::fs::create_dir(&inbox).unwrap();
    std::fs::set_permissions(&inbox, std::fs::Permissions::from_mode(0o777)).unwrap();
    socket(&inbox);
    assert!(store.file.inboxes().reach(waiter.terms.inbox).is_none());
    assert!(inbox.join(&name).exists(), "others may write there");
    std::fs::set_permissions(&inbox, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::remove_file(inbox.join(&name)).unwrap();
    std::fs::write(inbox.join(&name), "kept").unwrap();
    assert!(store.file.inboxes().reach(waiter.terms.inbox).is_none());
    assert!(inbox.join(&name).exists(), "a file is no socket");
    std::fs::remove_file(inbox.join(&name)).unwrap();
    socket(&inbox);
    assert!(store.file.inboxes().reach(waiter.terms.inbox).is_none());
    assert!(!inbox.join(&name).exists());
}

#[test]
fn who_listens_removes_the_sockets_of_the_dead() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let listeners = [10, 20, 30].map(|id| Contender::listening_at(&store, "a", InboxId(id)));
    let inbox = folder.0.join("locks.db-inbox");
    let left = || std::fs::read_dir(&inbox).unwrap().count() - listeners.len();
    for id in [1, 11, 12, 15, 21, 31, u64::MAX] {
        drop(UnixDatagram::bind(inbox.join(InboxId(id).to_string())).unwrap());
    }
    let mut seen = vec![left()];
    for listener in &listeners {
        store.file.inboxes().tidy(listener.terms.inbox);
        seen.push(left());
    }
    assert_eq!(seen, [7, 4, 3, 0], "each up to its neighbour");
}

#[test]
fn what_tasks_ask_for_is_done_in_the_order_of_asking() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut holder = Contender::new(&store, "a");
    holder.try_lock().unwrap();
    // Asked one after the other by one thread; whoever writes meanwhile makes them wait and try again.
    let mut helper = Helper::start("write", &folder.file());
    assert_eq!(helper.says(), "writing");
    let runtime = runtime::handle().unwrap();
    let mut waiters: Vec<_> = (0..50).map(|_| Contender::new(&store, "a")).collect();
    let mut calls: Vec<_> = waiters
        .iter_mut()
        .map(|waiter| {
            let intent = Intent::Acquire { terms: waiter.terms.clone(), wait: true, prev: None };
            let Step::Ask(requests) = waiter.machine.step(Input::Begin(intent)) else { panic!() };
            requests
        })
        .collect();
    let impatient = calls.pop().unwrap();
    let _entered = runtime.enter();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let soon = clock::now().after(Duration::from_millis(100));
    let mut asked: Vec<_> = calls.iter().map(|call| store.call_async(call, clock::now().after(LIMIT))).collect();
    asked.push(store.call_async(&impatient, soon));
    for call in &mut asked {
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    let answered = runtime.block_on(asked.pop().unwrap());
    assert!(matches!(answered.outcome, Outcome::NotSent(error) if error.kind() == Kind::Unavailable));
    drop(asked.pop());
    helper.end();
    for call in asked {
        assert!(matches!(runtime.block_on(call).outcome, Outcome::Replies(_)));
    }
    let positions: Vec<_> = waiters[..48].iter_mut().map(Contender::queue).collect();
    assert_eq!(positions, (0..48).collect::<Vec<_>>());
    assert_eq!(inspect(&store, "a").waiters, 48, "what was given up was never asked for");
}

#[test]
fn what_is_begun_may_be_done_until_its_limit_though_nobody_awaits_it() {
    let folder = Folder::new();
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "a");
    assert!(inspect(&store, "a").holder.is_none());
    let mut helper = Helper::start("write", &folder.file());
    assert_eq!(helper.says(), "writing");
    let intent = Intent::Acquire { terms: contender.terms.clone(), wait: false, prev: None };
    let Step::Ask(requests) = contender.machine.step(Input::Begin(intent)) else { panic!() };
    let limit = clock::now().after(LIMIT);
    let mut call = store.call_async(&requests, limit);
    {
        let _entered = runtime::handle().unwrap().enter();
        assert!(call.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending());
    }
    while !store.is_seen_to() {
        std::thread::yield_now();
    }
    drop(call);
    assert_eq!(store.void_after(clock::now(), limit), limit);
    helper.end();
    while inspect(&store, "a").holder.is_none() {
        assert!(clock::now() < limit, "it was begun");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_no_disk_is_not_called_full() {
    let error = refusal(Path::new("/proc/locks.db"));
    assert_eq!(error.kind(), Kind::InvalidConfig, "{error}");
    assert!(error.context().contains("no file can be made in /proc"), "{error}");
}

#[test]
fn nothing_stays_of_locks_that_nobody_uses() {
    let folder = Folder::new();
    let keys = || -> Vec<String> {
        let db = sql(&folder.file());
        let mut statement = db.prepare("SELECT key FROM locks UNION SELECT key FROM shared ORDER BY key").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    };
    // After a reboot nothing that was free is waited for.
    let leave = |name: &str| {
        let before = store_of_boot(&folder.file(), "before");
        for mut contender in [Contender::new(&before, name), Contender::of_one_permit(&before, &format!("{name} too"))]
        {
            contender.terms.card = Card { label: "a label of somebody".into(), ..Card::default() }.encode().into();
            contender.try_lock().unwrap();
            let _ = contender.release();
        }
    };
    leave("one");
    let store = store(&folder.file());
    let mut contender = Contender::new(&store, "kept");
    contender.try_lock().unwrap();
    assert_eq!(keys(), ["kept"], "by whoever opens the file");
    leave("two");
    assert_eq!(keys(), ["kept", "two", "two too"]);
    for _ in 0..1024 {
        assert!(contender.renew());
    }
    assert_eq!(keys(), ["kept"], "and by whoever goes on using it");
    sql(&folder.file()).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let bytes = std::fs::read(folder.file()).unwrap();
    let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("kept") && !contains("a label of somebody") && !contains("two"));
}

#[test]
fn a_row_that_cannot_be_read_is_nobody_elses_trouble() {
    let folder = Folder::new();
    Contender::new(&store(&folder.file()), "a").try_lock().unwrap();
    sql(&folder.file()).execute_batch("UPDATE locks SET owner = 'nonsense'").unwrap();
    let store = store(&folder.file());
    // Some of those who make a row look for idle ones, chosen by their attempts.
    for chance in 0..64 {
        let mut contender = Contender::new(&store, &format!("b{chance}"));
        contender.terms.attempt = AttemptId(attempt().0 & !63 | chance);
        assert!(contender.try_lock().is_some(), "{chance}");
    }
}
