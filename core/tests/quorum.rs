//! Locks on three files, each of which is a node: what a quorum does without a server.

#![cfg(feature = "sqlite")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockwright::guarantee::Requirements;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::options::ConnectOptions;
use lockwright::{Kind, blocking};

/// Three files in a folder of their own.
struct Files(PathBuf);

impl Files {
    fn new(what: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lockwright-quorum-{}-{what}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.0.join(format!("{number}.db"))
    }

    fn address(&self, options: &str) -> String {
        let each: Vec<_> = (0..3).map(|number| format!("sqlite://{}", self.file(number).display())).collect();
        format!("{}?max_ttl=2s&{options}", each.join(" "))
    }

    fn client(&self, options: &str) -> blocking::Client {
        blocking::Client::open(Some(&self.address(options)), ConnectOptions::default()).unwrap()
    }

    /// A client of nodes that are old enough.
    fn aged(&self, options: &str) -> blocking::Client {
        let client = self.client(options);
        assert_eq!(
            client.lock("age").ttl(Duration::from_secs(1)).acquire().unwrap().release().unwrap(),
            ReleaseOutcome::Released
        );
        client
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn empty(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

#[test]
fn nodes_that_are_new_are_waited_for_and_told_of() {
    let files = Files::new("new");
    let client = files.client("ttl=1s");
    let error = client.lock("x").try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Quorum, "{error}");
    assert!(error.to_string().contains("0 of 3 nodes granted the lock, 2 are needed"), "{error}");
    assert!(error.to_string().contains("is new, and counts in"), "{error}");
    let began = Instant::now();
    let error = client.lock("x").timeout(Duration::from_millis(200)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Quorum, "{error}");
    let guard = client.lock("x").acquire().unwrap();
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn threads_of_several_clients_exclude_each_other_and_tokens_rise() {
    let files = Files::new("threads");
    let clients = [files.aged("ttl=1s"), files.client("ttl=1s"), files.client("ttl=1s")];
    let counter = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..6)
        .map(|i| {
            let lock = clients[i % 3].lock("count").build().unwrap();
            let counter = counter.clone();
            std::thread::spawn(move || {
                for _ in 0..30 {
                    let guard = lock.acquire().unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(seen + 1, Ordering::Relaxed);
                    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), 180);
    assert!(clients[0].inspect("count").unwrap().holder.is_none());
}

#[test]
fn a_node_that_was_emptied_cannot_give_a_second_grant() {
    let files = Files::new("emptied");
    let [holder, other] = [files.aged("ttl=1s"), files.client("ttl=1s")];
    let guard = holder.lock("x").acquire().unwrap();
    empty(&files.file(1));
    empty(&files.file(2));
    let error = other.lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Quorum && error.to_string().contains("emptied"), "{error}");
    // A majority has forgotten it, so it is lost, and nobody has it before that.
    until("its holder is told", || !guard.is_held());
    assert!(matches!(guard.why_lost(), Some(LossReason::Gone | LossReason::Expired)), "{:?}", guard.why_lost());
    let _next = other.lock("x").acquire().unwrap();
}

#[test]
fn what_is_seen_broken_and_listed_is_so_on_a_majority() {
    let files = Files::new("seen");
    let [holder, other] = [files.aged("ttl=2s"), files.client("ttl=2s")];
    let guard = holder.lock("x").acquire().unwrap();
    let seen = other.inspect("x").unwrap();
    assert_eq!(seen.holder.as_ref().unwrap().first_token, guard.token().n);
    assert!(other.list().unwrap().contains(&"x".to_owned()));
    assert_eq!(other.lock("x").try_acquire().unwrap().map(|_| ()), None);
    empty(&files.file(0));
    assert!(other.inspect("x").unwrap().holder.is_some(), "two of three have it");
    assert!(other.break_lock("x", guard.token()).unwrap());
    assert!(other.inspect("x").unwrap().holder.is_none());
    assert!(guard.release().unwrap() != ReleaseOutcome::Released);
    other.ping().unwrap();
}

#[test]
fn what_cannot_be_kept_on_several_nodes_is_refused_when_it_is_built() {
    let files = Files::new("refused");
    let client = files.client("ttl=1s");
    let refused = |text: &str| blocking::Client::open(Some(text), ConnectOptions::default()).map(|_| ()).unwrap_err();
    assert_eq!(client.lock("x").ttl(Duration::from_secs(3)).build().unwrap_err().kind(), Kind::InvalidConfig);
    assert_eq!(client.lock("x").ttl(Duration::from_millis(300)).build().unwrap_err().kind(), Kind::InvalidConfig);
    assert_eq!(client.lock("x").fair().build().unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(client.semaphore("x", 2).build().unwrap_err().kind(), Kind::Unsupported);
    assert!(client.rwlock("x").read().build().is_ok());
    let twice = format!("sqlite://{0} sqlite://{0}", files.file(0).display());
    assert!(refused(&twice).to_string().contains("is named twice"));
    assert_eq!(refused("memory://a memory://b memory://c").kind(), Kind::Unsupported);
    assert_eq!(refused(&files.address("max_ttl=3s")).kind(), Kind::InvalidConfig);
    assert!(client.require(Requirements { failover_safe: true, shared: true, ..Requirements::default() }).is_ok());
}
