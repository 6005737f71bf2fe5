//! The whole way down and back over an etcd.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use etcd_client::{Compare, CompareOp, EventType, Txn, TxnOp, WatchOptions};
use lockwright::blocking::Client;
use lockwright::finding::Severity;
use lockwright::kit;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::{Arrival, Kind};
use one_server::{client, is_taken_and_given_back, name, until};

mod one_server;

fn address() -> String {
    std::env::var("LOCKWRIGHT_TEST_ETCD").unwrap_or_else(|_| {
        panic!(
            "these tests need an etcd: run `conformance/services/etcd.sh start` and set LOCKWRIGHT_TEST_ETCD to the \
             address it prints"
        )
    })
}

fn etcdctl(uri: &str, arguments: &[&str]) -> String {
    let endpoint = uri.trim_start_matches("etcd://");
    let done = Command::new("etcdctl").env("ETCDCTL_API", "3").args(["--endpoints", endpoint]).args(arguments).output();
    String::from_utf8(done.unwrap().stdout).unwrap()
}

#[test]
fn a_lock_is_taken_and_given_back_and_nothing_is_left() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    is_taken_and_given_back(&client, &name);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn whoever_only_tries_leaves_no_key_and_whoever_waits_is_served_in_order() {
    let uri = address();
    let (clients, name) = ([0, 1, 2].map(|_| client(&uri, "")), name("x"));
    let held = clients[0].lock(&name).acquire().unwrap();
    assert!(clients[1].lock(&name).try_acquire().unwrap().is_none());
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]).split_whitespace().count(), 1);
    let order = Arc::new(AtomicU64::new(0));
    let waiters: Vec<_> = [1, 2]
        .map(|at| {
            let (lock, order) = (clients[at].lock(&name).build().unwrap(), order.clone());
            let waits = std::thread::spawn(move || {
                let guard = lock.acquire().unwrap();
                let came = order.fetch_add(1, Ordering::Relaxed) as usize;
                (came + 1 == at, guard.token().n, guard.release().unwrap())
            });
            until("it waits", || clients[0].inspect(&name).unwrap().waiters == at as u64);
            waits
        })
        .into();
    let seen = clients[2].inspect(&name).unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (held.token().n, std::process::id()));
    assert!(seen.remaining > Duration::from_secs(20) && seen.remaining <= Duration::from_secs(30));
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let served: Vec<_> = waiters.into_iter().map(|waits| waits.join().unwrap()).collect();
    assert!(
        served.iter().all(|(in_order, _, outcome)| *in_order && *outcome == ReleaseOutcome::Released),
        "{served:?}"
    );
    assert!(served[0].1 < served[1].1);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn a_time_limit_and_a_ttl_beyond_the_lease_are_told() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let held = one.lock(&name).acquire().unwrap();
    let error = other.lock(&name).timeout(Duration::from_millis(150)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]).split_whitespace().count(), 1);
    let error = one.lock(&name).ttl(Duration::from_secs(31)).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    drop(held);
    until("it is free", || one.inspect(&name).unwrap().is_free());
}

/// What is found, and how much it matters.
fn examined(client: &Client) -> Vec<(&'static str, Severity)> {
    client.examine().unwrap().iter().map(|one| (one.check, one.severity)).collect()
}

#[test]
fn a_member_that_is_fit_says_so_and_that_it_is_alone() {
    let client = client(&address(), &format!("prefix={}/", name("fit")));
    let guard = client.lock("x").acquire().unwrap();
    // Whether it warns of its leases is a matter of its version, and how many keep nothing of who else is there.
    let found: Vec<_> = examined(&client).into_iter().filter(|one| !["leases", "leaked"].contains(&one.0)).collect();
    let fit = ["version", "leader", "room"].map(|check| (check, Severity::Ok));
    assert_eq!(found, [&fit[..], &[("members", Severity::Note), ("locks", Severity::Ok)]].concat());
    drop(guard);
}

#[test]
fn locks_that_do_not_see_one_another_are_found_and_those_whose_lease_is_gone() {
    let (uri, prefix) = (address(), name("doctor"));
    let client = client(&uri, &format!("prefix={prefix}/"));
    let of_locks = || -> Vec<_> {
        let checks = ["layouts", "nesting", "orphans", "locks"];
        examined(&client).into_iter().filter(|one| checks.contains(&one.0)).collect()
    };
    let theirs = Running::etcdctl(&uri, &["lock", "--ttl", "2", &format!("{prefix}/above")]);
    until("theirs holds", || client.inspect("above").unwrap().holder.is_some());
    assert_eq!(of_locks(), [("locks", Severity::Ok)]);
    let below = client.lock("above/below").acquire().unwrap();
    assert_eq!(of_locks(), [("nesting", Severity::Warning)]);
    drop(theirs);
    until("theirs is gone", || of_locks() == [("locks", Severity::Ok)]);
    let above = client.lock("above").acquire().unwrap();
    assert_eq!(of_locks(), [("nesting", Severity::Note)]);
    drop((above, below));
    // A library that keeps one key for each lock, such as etcd3 for Node or for Python.
    let granted = etcdctl(&uri, &["lease", "grant", "60"]);
    let lease = granted.split_whitespace().nth(1).unwrap();
    etcdctl(&uri, &["put", "--lease", lease, &format!("{prefix}/one"), ""]);
    let one = client.lock("one").acquire().unwrap();
    until("two layouts are found", || of_locks() == [("layouts", Severity::Warning)]);
    let kept = etcdctl(&uri, &["get", "--prefix", "--keys-only", &format!("{prefix}/one/")]);
    drop(one);
    etcdctl(&uri, &["lease", "revoke", lease]);
    until("nothing is left", || of_locks() == [("locks", Severity::Ok)]);
    // As a mirror writes it.
    etcdctl(&uri, &["put", kept.trim(), ""]);
    assert_eq!(of_locks(), [("orphans", Severity::Problem)]);
    let refused = client.lock("one").try_acquire().unwrap_err();
    assert_eq!(refused.kind(), Kind::ForeignLayout, "{refused}");
    etcdctl(&uri, &["del", kept.trim()]);
    assert!(client.lock("one").try_acquire().unwrap().is_some());
}

#[test]
fn leases_of_sessions_that_nobody_uses_are_counted() {
    let client = client(&address(), &format!("prefix={}/", name("leaked")));
    let leaked = || client.examine().unwrap().into_iter().find(|one| one.check == "leaked").unwrap();
    let idle = || leaked().found.rsplit_once(", ").unwrap().1.split(' ').next().unwrap().parse::<usize>().unwrap();
    (0..100).for_each(|_| drop(etcdctl(&address(), &["lease", "grant", "20"])));
    assert_eq!(leaked().severity, Severity::Note);
    assert!(idle() >= 100);
}

#[test]
fn locks_whose_names_go_on_after_a_slash_are_not_in_the_way() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let below = client.lock(&format!("{name}/y")).acquire().unwrap();
    let tried = client.lock(&name).try_acquire().unwrap().unwrap();
    let names = client.list().unwrap();
    assert!([name.clone(), format!("{name}/y")].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(client.inspect(&name).unwrap().waiters == 0);
    drop((below, tried));
}

#[test]
fn a_lease_that_is_revoked_ends_every_hold_of_its_client() {
    let uri = address();
    let (client, name) = (client(&uri, "ttl=3s"), name("x"));
    let guard = client.lock(&name).acquire().unwrap();
    let leases = etcdctl(&uri, &["get", "--prefix", "-w", "json", &name]);
    let lease = leases.split("\"lease\":").nth(1).unwrap().split(['}', ',']).next().unwrap().parse::<i64>().unwrap();
    let began = Instant::now();
    etcdctl(&uri, &["lease", "revoke", &format!("{lease:x}")]);
    until("it is lost", || !guard.is_held());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    // The client has another lease by then, or gets one.
    let next = client.lock(&name).acquire().unwrap();
    assert!(next.is_held());
}

#[test]
fn a_holder_hears_that_it_is_broken() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let guard = one.lock(&name).acquire().unwrap();
    let token = guard.token();
    assert!(!other.break_lock(&name, lockwright::Token::new(token.n + 1)).unwrap());
    assert!(other.break_lock(&name, token).unwrap());
    until("it is lost", || !guard.is_held());
    assert_eq!(guard.why_lost(), Some(LossReason::Broken));
    assert!(other.lock(&name).try_acquire().unwrap().is_some());
}

/// What is put and deleted below `name` meanwhile, with the revision of each.
fn written(uri: &str, name: &str, work: impl FnOnce()) -> Vec<(i64, EventType, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endpoint = uri.trim_start_matches("etcd://").to_owned();
    let mut client = runtime.block_on(etcd_client::Client::connect([endpoint], None)).unwrap();
    let mark = format!("{name}-mark");
    let put_mark = |client: &mut etcd_client::Client| {
        runtime.block_on(client.put(mark.clone(), "", None)).unwrap().header().unwrap().revision()
    };
    let before = put_mark(&mut client);
    work();
    let after = put_mark(&mut client);
    let options = WatchOptions::new().with_prefix().with_start_revision(before + 1);
    let written = runtime.block_on(async {
        let mut hears = client.watch(name, Some(options)).await.unwrap();
        let mut written = Vec::new();
        loop {
            let said = hears.message().await.unwrap().unwrap();
            for event in said.events() {
                let kv = event.kv().unwrap();
                if kv.mod_revision() == after {
                    return written;
                }
                written.push((kv.mod_revision(), event.event_type(), kv.key_str().unwrap().to_owned()));
            }
        }
    });
    etcdctl(uri, &["del", &mark]);
    written
}

/// The keys that `work` has put below this name, whether they are there yet or not.
fn keys_put(uri: &str, name: &str, work: impl FnOnce()) -> BTreeSet<String> {
    let puts = written(uri, name, work).into_iter().filter(|(_, event, _)| *event == EventType::Put);
    puts.map(|(.., key)| key).collect()
}

/// A deleted key is in everybody's way until the cluster is compacted, so those of one client are not called anew each
/// time.
#[test]
fn the_keys_of_a_lock_are_few_however_often_it_is_taken() {
    let (uri, name) = (address(), name("x"));
    let (one, other) = (client(&uri, ""), client(&uri, ""));
    let lock = one.lock(&name).build().unwrap();
    let keys = keys_put(&uri, &name, || {
        for _ in 0..10 {
            let held = lock.acquire().unwrap();
            assert!(other.lock(&name).try_acquire().unwrap().is_none());
            assert!(other.lock(&name).timeout(Duration::from_millis(500)).acquire().is_err());
            let _ = held.release().unwrap();
            let _ = one.lock(&name).acquire().unwrap().release().unwrap();
            let _ = other.lock(&name).try_acquire().unwrap().unwrap().release().unwrap();
        }
    });
    assert_eq!(keys.len(), 2, "one of each client: {keys:?}");
    for take in [1, 2] {
        let name = format!("{name}-{take}");
        let keys = keys_put(&uri, &name, || {
            for _ in 0..10 {
                let first = one.semaphore(&name, 4).take(take).acquire().unwrap();
                let _ = one.semaphore(&name, 4).take(take).acquire().unwrap().release().unwrap();
                let _ = first.release().unwrap();
            }
        });
        assert_eq!(keys.len(), 2, "one of each that are held at once: {keys:?}");
    }
}

#[test]
fn tasks_of_a_process_hand_a_lock_on_by_one_transaction_each() {
    const TASKS: u64 = 16;
    const TIMES: u64 = 20;
    let (uri, name) = (address(), name("x"));
    let client = client(&uri, "");
    let (count, tokens) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let held = client.lock(&name).acquire().unwrap();
    let written = written(&uri, &name, || {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (lock, count, tokens) = (client.lock(&name).build().unwrap(), count.clone(), tokens.clone());
                std::thread::spawn(move || {
                    for _ in 0..TIMES {
                        let guard = lock.acquire().unwrap();
                        assert!(tokens.swap(guard.token().n, Ordering::Relaxed) < guard.token().n);
                        // Two at once would count one.
                        let seen = count.load(Ordering::Relaxed);
                        std::thread::yield_now();
                        count.store(seen + 1, Ordering::Relaxed);
                        assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
                    }
                })
            })
            .collect();
        assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
    assert_eq!(count.load(Ordering::Relaxed), TASKS * TIMES);
    let keys: BTreeSet<_> = written.iter().map(|(.., key)| key).collect();
    assert!(keys.len() <= 3, "they take turns: {keys:?}");
    let writes: BTreeSet<_> = written.iter().map(|(revision, ..)| revision).collect();
    // Whoever comes back when nobody waits begins anew.
    let most = TASKS * TIMES * 11 / 10 + 2;
    assert!(writes.len() as u64 <= most, "{} writes for {} holds", writes.len(), TASKS * TIMES);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn whoever_of_another_process_stands_in_line_is_not_passed_over() {
    let (uri, name) = (address(), name("x"));
    let (one, other) = (client(&uri, ""), client(&uri, ""));
    let held = one.lock(&name).acquire().unwrap();
    let (says, hears) = mpsc::channel();
    let waits = |client: &Client, who: &'static str| {
        let (lock, says) = (client.lock(&name).build().unwrap(), says.clone());
        std::thread::spawn(move || {
            let guard = lock.acquire().unwrap();
            says.send((who, guard.token().n)).unwrap();
            guard.release().unwrap()
        })
    };
    let others = waits(&other, "other");
    until("another process stands in line", || one.inspect(&name).unwrap().waiters == 1);
    let own = [waits(&one, "own"), waits(&one, "own")];
    until("tasks of the holder's wait", || one.metrics().waiting >= 2);
    let before = held.token().n;
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    let served: Vec<_> = (0..3).map(|_| hears.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    assert_eq!(served.iter().map(|(who, _)| *who).collect::<Vec<_>>(), ["other", "own", "own"]);
    assert!(served.iter().map(|(_, token)| *token).is_sorted() && served[0].1 > before, "{before} {served:?}");
    for task in [others].into_iter().chain(own) {
        assert_eq!(task.join().unwrap(), ReleaseOutcome::Released);
    }
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

/// A copy of this process's memory would call its key by the same name.
#[test]
fn a_key_under_its_name_that_says_that_it_is_anothers_is_left_alone() {
    let (uri, name) = (address(), name("x"));
    let client = client(&uri, "");
    let held = client.lock(&name).acquire().unwrap();
    let key = etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]);
    let _ = held.release().unwrap();
    let granted = etcdctl(&uri, &["lease", "grant", "60"]);
    let lease = granted.split_whitespace().nth(1).unwrap();
    etcdctl(&uri, &["put", "--lease", lease, key.trim(), "attempt 0123456789abcdef0123456789abcdef"]);
    assert!(client.lock(&name).try_acquire().unwrap().is_none());
    assert!(client.lock(&name).timeout(Duration::from_millis(300)).acquire().is_err());
    assert!(etcdctl(&uri, &["get", "--prefix", &name]).contains("attempt 0123456789abcdef0123456789abcdef"));
    etcdctl(&uri, &["lease", "revoke", lease]);
    assert!(client.lock(&name).try_acquire().unwrap().is_some());
}

#[test]
fn a_transaction_that_names_the_token_writes_only_while_the_lock_is_held() {
    let (uri, name) = (address(), name("x"));
    let (one, other) = (client(&uri, "ttl=20s"), client(&uri, "ttl=20s"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endpoint = uri.trim_start_matches("etcd://").to_owned();
    let mut theirs = runtime.block_on(etcd_client::Client::connect([endpoint], None)).unwrap();
    let [from, to] = kit::key_range(&name).unwrap();
    let value = format!("{name}-value");
    let mut write = |token: u64, text: &str| {
        let token = i64::try_from(token).unwrap();
        let lost = Compare::create_revision(from.clone(), CompareOp::NotEqual, token).with_range(to.clone());
        let write = TxnOp::put(value.clone(), text, None);
        !runtime.block_on(theirs.txn(Txn::new().when([lost]).or_else([write]))).unwrap().succeeded()
    };
    let first = one.lock(&name).acquire().unwrap();
    let token = first.token().n;
    assert!(write(token, "first") && write(token, "again"));
    let waits = std::thread::spawn({
        let lock = other.lock(&name).build().unwrap();
        move || lock.acquire().unwrap()
    });
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    assert!(write(token, "while one waits"));
    let _ = first.release().unwrap();
    let next = waits.join().unwrap();
    assert!(!write(token, "late") && write(next.token().n, "next"));
    let last = next.token().n;
    let _ = next.release().unwrap();
    assert!(!write(last, "late, and nobody followed"));
    assert!(etcdctl(&uri, &["get", "--print-value-only", &value]).starts_with("next"));
    etcdctl(&uri, &["del", &value]);
}

#[test]
fn a_queue_behind_a_lock_that_is_held_for_longer_than_the_lease_keeps_its_places() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, "ttl=2s"), name("x"));
    let held = one.lock(&name).acquire().unwrap();
    let waits = {
        let (other, name) = (other.clone(), name.clone());
        std::thread::spawn(move || other.lock(&name).acquire().unwrap().release().unwrap())
    };
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    let place = etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]), place);
    drop(held);
    assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn etcdctl_and_ours_exclude_one_another() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let held = client.lock(&name).acquire().unwrap();
    let endpoint = uri.trim_start_matches("etcd://").to_owned();
    let theirs = |what: &str| {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint, "lock", &name, "--"]).args(["sh", "-c", what]);
        command.spawn().unwrap()
    };
    let mut waits = theirs("exit 7");
    until("theirs waits", || client.inspect(&name).unwrap().waiters == 1);
    assert!(waits.try_wait().unwrap().is_none());
    assert_eq!(held.release().unwrap(), ReleaseOutcome::Released);
    // That version of it always ends well.
    waits.wait().unwrap();
    let mut holds = theirs("sleep 0.5");
    until("theirs holds", || client.inspect(&name).unwrap().holder.is_some());
    assert!(client.lock(&name).try_acquire().unwrap().is_none());
    let guard = client.lock(&name).acquire().unwrap();
    assert!(holds.try_wait().unwrap().is_some() || guard.is_held());
    holds.wait().unwrap();
}

#[test]
fn nobody_at_the_address_is_told_at_once() {
    let client = lockwright::blocking::connect("etcd://127.0.0.1:1").unwrap();
    let began = Instant::now();
    let error = client.lock("x").try_acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}: {error}", began.elapsed());
    // Of a list, the next is asked.
    let uri = address().replace("etcd://", "etcd://127.0.0.1:1,");
    let guard = lockwright::blocking::connect(&uri).unwrap().lock(&name("x")).acquire().unwrap();
    assert!(guard.is_held());
}

/// Whatever runs beside the test, and ends with it.
struct Running(std::process::Child);

impl Running {
    fn etcdctl(uri: &str, arguments: &[&str]) -> Self {
        let endpoint = uri.trim_start_matches("etcd://");
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", endpoint]).args(arguments).stdout(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// What it prints next, each time.
    fn lines(&mut self) -> impl FnMut() -> String + use<> {
        let (prints, printed) = mpsc::channel();
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| prints.send(line).is_ok()));
        move || printed.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_holder_that_is_killed_or_forgets_it_is_followed_by_the_other_side() {
    let uri = address();
    let (client, name) = (client(&uri, "ttl=2s"), name("x"));
    let theirs = Running::etcdctl(&uri, &["lock", "--ttl", "2", &name]);
    until("theirs holds", || client.inspect(&name).unwrap().holder.is_some());
    let killed = Instant::now();
    // Which leaves its lease as it is.
    drop(theirs);
    let guard = client.lock(&name).acquire().unwrap();
    assert!(killed.elapsed() > Duration::from_millis(500) && killed.elapsed() < Duration::from_secs(6));
    let mut theirs = Running::etcdctl(&uri, &["lock", &name]);
    let mut prints = theirs.lines();
    until("theirs waits", || client.inspect(&name).unwrap().waiters == 1);
    guard.abandon();
    assert!(prints().starts_with(&format!("{name}/")));
}

#[test]
fn who_leads_is_seen_by_etcdctl_and_by_us_and_each_follows_the_other() {
    let uri = address();
    let (client, name) = (client(&uri, ""), name("x"));
    let election = client.election(&name);
    let mut listens = Running::etcdctl(&uri, &["elect", "--listen", &name]);
    let mut heard = listens.lines();
    let ours = election.campaign("10.0.0.7:8080").unwrap();
    // It prints the key, then what is proclaimed.
    assert!(heard().starts_with(&format!("{name}/")));
    assert_eq!(heard(), "10.0.0.7:8080");
    let theirs = Running::etcdctl(&uri, &["elect", &name, "10.0.0.8:8080"]);
    until("theirs stands by", || client.inspect(&name).unwrap().waiters == 1);
    let leader = election.leader().unwrap().unwrap();
    assert_eq!((leader.card.label.as_str(), leader.card.pid), ("10.0.0.7:8080", std::process::id()));
    assert_eq!(leader.token, ours.token().n);
    // Resigns.
    let _ = ours.release().unwrap();
    let leader = election.changed(Some(leader.token), Duration::from_millis(10)).unwrap();
    let leader = leader.or_else(|| election.changed(None, Duration::from_millis(10)).unwrap()).unwrap();
    assert_eq!((leader.card.label.as_str(), leader.card.host.as_str()), ("10.0.0.8:8080", ""));
    assert!(heard().starts_with(&format!("{name}/")));
    assert_eq!(heard(), "10.0.0.8:8080");
    let next = {
        let election = election.clone();
        std::thread::spawn(move || election.campaign("10.0.0.9:8080").unwrap())
    };
    until("ours stands by", || client.inspect(&name).unwrap().waiters == 1);
    // It resigns when it is told to end.
    let pid = rustix::process::Pid::from_raw(theirs.0.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let next = next.join().unwrap();
    assert!(next.token().n > leader.token);
    assert!(heard().starts_with(&format!("{name}/")));
    assert_eq!(heard(), "10.0.0.9:8080");
}

#[test]
fn readers_read_together_and_a_writer_is_alone() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let readers = [&one, &other, &one].map(|client| client.rwlock(&name).read().acquire().unwrap());
    assert!(other.rwlock(&name).write().try_acquire().unwrap().is_none());
    let writer = {
        let lock = other.rwlock(&name).write().build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap())
    };
    until("the writer waits", || one.inspect(&name).unwrap().waiters == 1);
    // Nobody overtakes it.
    assert!(one.rwlock(&name).read().try_acquire().unwrap().is_none());
    let seen = one.inspect(&name).unwrap();
    let shared = seen.shared.unwrap();
    assert_eq!((seen.primitive, shared.holders.len(), shared.held), (Some("rwlock"), 3, 3));
    assert!(shared.holders.iter().all(|part| part.holder.card.pid == std::process::id()));
    assert_eq!(shared.holders[0].holder.first_token, readers[0].token().n);
    let highest = readers.iter().map(|reader| reader.token().n).max().unwrap();
    for reader in readers {
        assert!(!writer.is_finished());
        assert_eq!(reader.release().unwrap(), ReleaseOutcome::Released);
    }
    let writer = writer.join().unwrap();
    assert!(writer.token().n > highest);
    assert!(one.rwlock(&name).read().try_acquire().unwrap().is_none());
    assert_eq!(one.lock(&name).try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(one.semaphore(&name, 2).try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(writer.downgrade().unwrap_err().kind(), Kind::Unsupported);
    assert!(writer.is_held());
    assert!(one.list().unwrap().contains(&name));
    assert!(one.break_lock(&name, writer.token()).unwrap());
    until("it is lost", || !writer.is_held());
    assert_eq!(writer.why_lost(), Some(LossReason::Broken));
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
}

#[test]
fn so_many_permits_are_given_and_no_more() {
    let uri = address();
    let (one, other, name) = (client(&uri, ""), client(&uri, ""), name("x"));
    let two = one.semaphore(&name, 3).take(2).acquire().unwrap();
    let last = other.semaphore(&name, 3).acquire().unwrap();
    assert!(one.semaphore(&name, 3).try_acquire().unwrap().is_none());
    assert_eq!(etcdctl(&uri, &["get", "--prefix", "--keys-only", &name]).split_whitespace().count(), 2);
    let shared = one.inspect(&name).unwrap().shared.unwrap();
    assert_eq!((shared.permits, shared.held, shared.holders.len()), (Some(3), 3, 2));
    let error = one.semaphore(&name, 9).take(4).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidConfig, "{error}");
    let waits = {
        let lock = other.semaphore(&name, 3).take(2).build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap())
    };
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    assert_eq!(last.release().unwrap(), ReleaseOutcome::Released);
    // One is free, and it wants two: nobody overtakes it.
    assert!(one.semaphore(&name, 3).try_acquire().unwrap().is_none());
    assert!(!waits.is_finished());
    assert_eq!(two.release().unwrap(), ReleaseOutcome::Released);
    let waited = waits.join().unwrap();
    assert!(one.semaphore(&name, 3).try_acquire().unwrap().is_some());
    assert_eq!(waited.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(one.semaphore(&name, 1001).build().unwrap_err().kind(), Kind::Unsupported);
    let lock = one.semaphore(&name, 3).build().unwrap();
    assert_eq!(lock.resize(4).unwrap_err().kind(), Kind::Unsupported);
    until("nothing is left", || etcdctl(&uri, &["get", "--prefix", &name]).is_empty());
}

#[test]
fn a_latch_opens_once_all_have_counted_down_and_each_counts_once() {
    let uri = address();
    let (one, other, name) = (client(&uri, "ttl=3s"), client(&uri, ""), name("x"));
    let minute = Duration::from_secs(60);
    let [ours, theirs] = [&one, &other].map(|client| client.latch(&name, 40).idle(minute).build().unwrap());
    assert_eq!(ours.count().unwrap(), 40);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &name]), "");
    let waits: Vec<_> = [&ours, &theirs, &ours]
        .map(|latch| {
            let latch = latch.clone();
            std::thread::spawn(move || latch.wait())
        })
        .into();
    until("they wait", || one.inspect(&name).unwrap().waiters == 3);
    assert!(!theirs.wait_within(Some(Duration::ZERO)).unwrap());
    // All at once, from both: whoever was not as fast reads the count again.
    let counts: Vec<_> = (0..39)
        .map(|number| {
            let latch = if number % 2 == 0 { ours.clone() } else { theirs.clone() };
            std::thread::spawn(move || latch.count_down().unwrap())
        })
        .collect();
    let mut left: Vec<_> = counts.into_iter().map(|count| count.join().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, (1..40).collect::<Vec<_>>());
    assert!(!theirs.try_set_count(5).unwrap());
    assert!(waits.iter().all(|waits| !waits.is_finished()));
    let seen = other.inspect(&name).unwrap();
    assert_eq!((seen.primitive, seen.latch.unwrap().count, seen.waiters), (Some("latch"), 1, 3));
    assert!(one.list().unwrap().contains(&name));
    // A name is one thing.
    assert_eq!(one.lock(&name).try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(one.semaphore(&name, 2).try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    let lock = format!("{name}/lock");
    let held = one.lock(&lock).acquire().unwrap();
    let error = other.latch(&lock, 2).build().unwrap().count_down().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    drop(held);
    assert_eq!(theirs.count_down().unwrap(), 0);
    for waits in waits {
        waits.join().unwrap().unwrap();
    }
    assert!(ours.wait_within(Some(Duration::ZERO)).unwrap());
    assert_eq!((ours.count_down().unwrap(), one.inspect(&name).unwrap().waiters), (0, 0));
    assert!(ours.try_set_count(1).unwrap());
    assert!(!theirs.wait_within(Some(Duration::from_millis(100))).unwrap());
    assert_eq!(theirs.count_down().unwrap(), 0);
    assert!(ours.wait_within(Some(Duration::ZERO)).unwrap());
    // It is kept by a lease of its own, for as long as it said.
    let json = etcdctl(&uri, &["get", "-w", "json", &format!("{name}/latch/state/count")]);
    let lease = json.split("\"lease\":").nth(1).unwrap().split(['}', ',']).next().unwrap().parse::<i64>().unwrap();
    let lives = etcdctl(&uri, &["lease", "timetolive", &format!("{lease:x}")]);
    assert!(lives.contains("granted with TTL(60s)"), "{lives}");
    etcdctl(&uri, &["lease", "revoke", &format!("{lease:x}")]);
    assert_eq!(etcdctl(&uri, &["get", "--prefix", &format!("{name}/latch")]), "");
}

fn tls_address() -> String {
    std::env::var("LOCKWRIGHT_TEST_ETCD_TLS").unwrap_or_else(|_| {
        panic!(
            "this test needs an etcd with TLS: run `conformance/services/etcd-tls.sh start` and set \
             LOCKWRIGHT_TEST_ETCD_TLS to the address it prints"
        )
    })
}

#[test]
fn certificates_a_password_and_tokens_that_end_are_honoured() {
    let uri = tls_address();
    let (one, other) = (lockwright::blocking::connect(&uri).unwrap(), lockwright::blocking::connect(&uri).unwrap());
    let name = name("x");
    let guard = one.lock(&name).acquire().unwrap();
    let waits = {
        let lock = other.lock(&name).build().unwrap();
        std::thread::spawn(move || lock.acquire().unwrap().release().unwrap())
    };
    until("it waits", || one.inspect(&name).unwrap().waiters == 1);
    // The tokens of both are over twice by then; the hold is not.
    std::thread::sleep(Duration::from_secs(7));
    assert!(guard.is_held() && guard.remaining() > Duration::from_secs(15), "{:?}", guard.remaining());
    let next = one.lock(&format!("{name}/other")).acquire().unwrap();
    assert!(next.is_held());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waits.join().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn whoever_is_not_known_or_has_no_rights_is_told() {
    let uri = tls_address();
    let password = uri.split(':').nth(2).unwrap().split('@').next().unwrap().to_owned();
    let fails = |uri: &str| {
        let client = lockwright::blocking::connect(uri).unwrap();
        let began = Instant::now();
        let error = client.lock(&name("x")).try_acquire().unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}: {error}", began.elapsed());
        let told = format!("{error} {error:?}");
        assert!(!told.contains(&password), "{told}");
        error.kind()
    };
    assert_eq!(fails(&uri.replace(&password, "wrong")), Kind::Auth);
    assert_eq!(fails(&uri.replace("prefix=app/", "prefix=secret/")), Kind::Auth);
    let (base, options) = uri.split_once('?').unwrap();
    let without = |dropped: &[&str]| {
        let is_left = |part: &&str| !dropped.iter().any(|option| part.starts_with(option));
        let left: Vec<_> = options.split('&').filter(is_left).collect();
        format!("{base}?store_timeout=2s&{}", left.join("&"))
    };
    // Neither an authority that nobody knows nor a client without a certificate is taken.
    assert_eq!(fails(&without(&["ca="])), Kind::Auth);
    assert_eq!(fails(&without(&["cert=", "key="])), Kind::Unavailable);
    // A certificate names its user, too.
    let by_certificate = format!("etcds://{}?{options}", base.split('@').nth(1).unwrap());
    let client = lockwright::blocking::connect(&by_certificate).unwrap();
    assert!(client.lock(&name("x")).try_acquire().unwrap().is_some());
}

#[test]
fn all_at_a_barrier_go_on_together_and_nobody_is_ahead_by_more_than_one_generation() {
    let (uri, name) = (address(), name("x"));
    let parties: Vec<_> = (0..4)
        .map(|_| {
            let client = client(&uri, "ttl=3s");
            let barrier = client.barrier(&name, 4).ttl(Duration::from_secs(3)).build().unwrap();
            let waits = std::thread::spawn(move || (0..25).map(|_| barrier.wait().unwrap()).collect::<Vec<_>>());
            (client, waits)
        })
        .collect();
    let (clients, waits): (Vec<_>, Vec<_>) = parties.into_iter().unzip();
    let seen: Vec<_> = waits.into_iter().map(|waits| waits.join().unwrap()).collect();
    let mut last = 0;
    for round in 0..25 {
        let generation = seen[0][round].generation;
        assert!(generation > last && seen.iter().all(|party| party[round].generation == generation), "{seen:?}");
        last = generation;
        let mut indexes: Vec<_> = seen.iter().map(|party| party[round].index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, [0, 1, 2, 3]);
    }
    // That it is a barrier is known for as long as somebody lives who opened it.
    assert_eq!(clients[0].lock(&name).try_acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(clients[0].latch(&name, 1).build().unwrap().count_down().unwrap_err().kind(), Kind::ForeignLayout);
    clients.iter().for_each(Client::close);
    until("nothing is left", || etcdctl(&uri, &["get", "--prefix", &name]).is_empty());
}

#[test]
fn a_place_that_was_given_up_is_another_ones_and_a_time_limit_tells_the_truth() {
    let (uri, name) = (address(), name("x"));
    let [here, there] = [0, 1].map(|_| client(&uri, "ttl=3s"));
    let [mine, theirs] =
        [&here, &there].map(|client| client.barrier(&name, 2).ttl(Duration::from_secs(3)).build().unwrap());
    assert_eq!((mine.waiting().unwrap(), mine.wait_within(Some(Duration::ZERO)).unwrap()), (0, None));
    assert_eq!(mine.wait_within(Some(Duration::from_millis(200))).unwrap(), None);
    let cancelled = mine.gate().begin(None).unwrap();
    until("it waits", || theirs.waiting().unwrap() == 1);
    let seen = there.inspect(&name).unwrap();
    assert_eq!((seen.primitive, seen.waiters), (Some("barrier"), 1));
    let three = there.barrier(&name, 3).ttl(Duration::from_secs(3)).build().unwrap();
    assert_eq!(three.wait().unwrap_err().kind(), Kind::InvalidConfig);
    drop(cancelled);
    until("it is given up", || theirs.waiting().unwrap() == 0);
    assert_eq!(there.barrier(&name, 61).build().unwrap_err().kind(), Kind::Unsupported);
    let [mut passed, mut told] = [0, 0];
    for round in 0..16_u64 {
        let waits = {
            let theirs = theirs.clone();
            std::thread::spawn(move || theirs.wait_within(Some(Duration::from_millis(300))))
        };
        std::thread::sleep(Duration::from_millis(270 + round * 3));
        let other = mine.wait_within(Some(Duration::from_millis(500)));
        // A machine or a disk that stands still for so long is a store that did not answer in time, which says nothing.
        let silent = |seen: &lockwright::Result<_>| seen.as_ref().is_err_and(|error| error.kind() == Kind::Unavailable);
        let waited = waits.join().unwrap();
        if !silent(&waited) && !silent(&other) {
            let generation =
                |seen: lockwright::Result<Option<Arrival>>| seen.unwrap().map(|arrival| arrival.generation);
            let [waited, other] = [waited, other].map(generation);
            assert_eq!(waited, other);
            passed += u32::from(other.is_some());
            told += 1;
            assert_eq!(mine.waiting().unwrap(), 0);
        }
        until("nobody waits", || mine.waiting().unwrap() == 0);
    }
    assert!(told > 8, "of 16 rounds only {told} were told how they ended");
    assert!(passed > 0, "nobody passed");
    let held = here.lock(&format!("{name}/lock")).acquire().unwrap();
    let of_lock = there.barrier(&format!("{name}/lock"), 1).ttl(Duration::from_secs(3)).build().unwrap();
    assert_eq!(of_lock.wait().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(of_lock.waiting().unwrap_err().kind(), Kind::ForeignLayout);
    drop(held);
}

#[test]
fn a_party_whose_lease_ends_while_it_waits_does_not_know_whether_it_passed() {
    let (uri, name) = (address(), name("x"));
    let client = client(&uri, "ttl=3s");
    let barrier = client.barrier(&name, 2).ttl(Duration::from_secs(3)).build().unwrap();
    let waits = {
        let barrier = barrier.clone();
        std::thread::spawn(move || barrier.wait())
    };
    until("it waits", || barrier.waiting().unwrap() == 1);
    let json = etcdctl(&uri, &["get", "-w", "json", "--prefix", &name]);
    let lease = json.split("\"lease\":").nth(1).unwrap().split(['}', ',']).next().unwrap().parse::<i64>().unwrap();
    etcdctl(&uri, &["lease", "revoke", &format!("{lease:x}")]);
    assert_eq!(waits.join().unwrap().unwrap_err().kind(), Kind::Lost);
    assert_eq!(barrier.waiting().unwrap(), 0);
}
