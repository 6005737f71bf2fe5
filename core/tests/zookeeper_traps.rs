//! What locks on ZooKeeper are known to go wrong by: waits longer than a session, sessions that end, numbers that come
//! to their end, directories that the server removes, names below names. Each test has a server of its own.

mod zookeeper_server;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use lockwright::blocking::Guard;
use lockwright::finding::Severity;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::{Kind, Token};
use zookeeper_server::{PATIENCE, PLAIN, Server, until, waiting};

/// Gives it back, and says under which token it was held.
fn given_back(guard: Guard) -> Token {
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    token
}

#[test]
fn whoever_waits_for_longer_than_its_session_lasts_by_itself_has_the_lock_in_the_end() {
    let server = Server::start();
    let [holder, waiter] = ["ttl=20s", "ttl=500ms"].map(|ttl| server.client(ttl));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&waiter, "x");
    // Four of its sessions.
    assert!(hear.recv_timeout(Duration::from_millis(2_700)).is_err());
    let token = given_back(guard);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.is_held() && next.token() > token);
    given_back(next);
}

#[test]
fn whoever_gives_back_what_was_broken_gives_back_nothing_that_was_taken_since() {
    let server = Server::start();
    let [one, other] = [0, 1].map(|_| server.client("ttl=2s"));
    let first = one.lock("x").acquire().unwrap();
    assert!(other.break_lock("x", first.token()).unwrap());
    until("it is told", || !first.is_held());
    let second = one.lock("x").acquire().unwrap();
    assert!(second.token() > first.token());
    assert_ne!(first.release().ok(), Some(ReleaseOutcome::Released));
    assert_eq!(other.inspect("x").unwrap().holder.unwrap().first_token, second.token().n);
    assert!(second.is_held() && other.lock("x").try_acquire().unwrap().is_none());
    given_back(second);
}

#[test]
fn whoever_is_cut_off_is_told_before_another_can_hold() {
    let server = Server::start();
    let gate = server.gate();
    let (holder, other) = (server.client_by(&gate, "ttl=1s"), server.client("ttl=20s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&other, "x");
    gate.shut();
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(!guard.is_held(), "it is lost before");
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    gate.open();
    let again = waiting(&holder, "x");
    assert!(next.is_held());
    let token = given_back(next);
    assert!(again.recv_timeout(PATIENCE).unwrap().token() > token);
}

#[test]
fn whoever_waits_while_its_session_ends_stands_in_line_again() {
    let server = Server::start();
    let gate = server.gate();
    let (waiter, holder) = (server.client_by(&gate, "ttl=1s&store_timeout=60s"), server.client("ttl=20s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&waiter, "x");
    gate.shut();
    let waiters = |many| holder.inspect("x").unwrap().waiters == many;
    until("its node goes with its session", || waiters(0));
    gate.open();
    until("it waits again", || waiters(1));
    assert!(hear.try_recv().is_err());
    let token = given_back(guard);
    assert!(hear.recv_timeout(PATIENCE).unwrap().token() > token);
    until("nobody is left", || holder.inspect("x").unwrap().is_free());
}

#[test]
fn a_lock_below_a_locks_name_is_another_lock() {
    let server = Server::start();
    let [one, other] = [0, 1].map(|_| server.client("ttl=20s"));
    let outer = one.lock("orders").acquire().unwrap();
    let inner = other.lock("orders/42").try_acquire().unwrap().expect("nobody has it");
    assert!(one.lock("orders/42").try_acquire().unwrap().is_none());
    given_back(outer);
    assert!(other.lock("orders").try_acquire().unwrap().is_some(), "who holds below it is not in its way");
    given_back(inner);
}

#[test]
fn a_directory_stays_while_somebody_holds_or_waits() {
    let server = Server::start_by(PLAIN, "-Dznode.container.checkIntervalMs=50");
    let [one, other] = [0, 1].map(|_| server.client("ttl=20s"));
    let guard = one.lock("x").acquire().unwrap();
    let hear = waiting(&other, "x");
    // The server looks ten times.
    assert!(hear.recv_timeout(Duration::from_millis(500)).is_err() && guard.is_held());
    let token = given_back(guard);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.token() > token);
    let token = given_back(next);
    until("the directories are gone", || server.ask("srvr").contains("Node count: 5"));
    assert!(other.lock("x").acquire().unwrap().token() > token, "tokens rise though numbers begin anew");
}

#[test]
fn whoever_was_first_again_and_again_waits_in_a_directory_that_was_made_anew() {
    let server = Server::start();
    let [first, other] = [0, 1].map(|_| server.client("ttl=20s"));
    // Numbers 0 to 2, of which the last is granted unlisted.
    let [.., held] = [(); 3].map(|()| given_back(first.lock("x").acquire().unwrap()));
    server.delete("/locks/x");
    for _ in 0..2 {
        given_back(other.lock("x").acquire().unwrap());
    }
    // It has number 2 here, and who comes behind it 3, which followed in the other directory.
    let second = other.lock("x").acquire().unwrap();
    let hear = waiting(&first, "x");
    assert!(second.token() > held && hear.try_recv().is_err());
    let token = given_back(second);
    assert!(hear.recv_timeout(PATIENCE).unwrap().token() > token);
}

/// Has the directory `path` number its next child so, in the newest snapshot of a server that is not running. That is a
/// list of nodes, each its path, its data behind their length, its ACL, and its stat; behind it is its sum by Adler.
fn number(server: &Server, path: &str, next: i32) {
    let dir = server.folder().join("data/version-2");
    let zxid = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().strip_prefix("snapshot.")?.to_owned();
        u64::from_str_radix(&name, 16).ok()
    };
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let newest = files.filter(|path| zxid(path).is_some()).max_by_key(zxid).unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let node = [&u32::try_from(path.len()).unwrap().to_be_bytes()[..], path.as_bytes()].concat();
    let at = bytes.windows(node.len()).position(|window| *window == node).expect("the node is there") + node.len();
    let data = i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()).max(0);
    // The ACL, czxid, mzxid, ctime, mtime, version.
    let cversion = at + 4 + usize::try_from(data).unwrap() + 8 + 4 * 8 + 4;
    bytes[cversion..cversion + 4].copy_from_slice(&next.to_be_bytes());
    let end = bytes.len() - 5;
    assert_eq!(bytes[end..], *b"\0\0\0\x01/");
    let (low, high) = bytes[..end - 8].iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    let sum = u64::from(high << 16 | low).to_be_bytes();
    bytes[end - 8..end].copy_from_slice(&sum);
    fs::write(newest, bytes).unwrap();
}

#[test]
fn numbers_that_come_to_their_end_are_refused_and_doctor_says_how_to_begin_anew() {
    // What a node is changed by is no sum of all of them here.
    let server = Server::start_by(PLAIN, "-Dzookeeper.digest.enabled=false");
    let client = server.client("ttl=20s");
    let names = ["fit", "near", "last", "below"];
    for name in names {
        given_back(client.lock(name).acquire().unwrap());
    }
    given_back(client.semaphore("permits", 2).acquire().unwrap());
    client.close();
    // Whoever begins writes a snapshot of what there was.
    server.run("restart");
    server.kill();
    let limit = i32::MAX - (1 << 20);
    for (path, next) in [
        ("/locks/fit", limit - 10),
        ("/locks/near", limit + 2),
        ("/locks/last", i32::MAX),
        ("/locks/below", i32::MIN),
        ("/locks/permits/leases", i32::MAX),
    ] {
        number(&server, path, next);
    }
    server.run("restart");
    let client = server.client("ttl=20s");
    let refused = |name: &str| {
        // Past the last number the next is negative: refused again.
        for _ in 0..2 {
            let error = client.lock(name).timeout(PATIENCE).acquire().unwrap_err();
            assert!(error.kind() == Kind::Unsupported && error.to_string().contains("delete /locks/"), "{error}");
            assert!(client.lock(name).try_acquire().is_err(), "nor does it get in by trying");
        }
        assert!(client.inspect(name).unwrap().is_free(), "nothing of it is left");
    };
    ["near", "last", "below"].into_iter().for_each(refused);
    let error = client.semaphore("permits", 2).timeout(PATIENCE).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let held = client.lock("fit").acquire().unwrap();
    let found = client.examine().unwrap();
    let worn = found.iter().find(|finding| finding.check == "sequence").expect("doctor sees it");
    let advice = format!("{worn:?}");
    // Nobody is in those that refuse, so that no name tells how far they are.
    assert!(worn.severity == Severity::Problem && advice.contains("delete the directories"), "{advice}");
    assert!(["/locks/fit", "/locks/last", "/locks/near"].iter().all(|dir| worn.found.contains(dir)), "{advice}");
    let token = given_back(held);
    // As doctor says. By itself the server removes no directory whose numbers are negative.
    server.delete("/locks");
    for name in names {
        let again = client.lock(name).acquire().unwrap();
        assert!(again.token() > token);
        given_back(again);
    }
    assert!(client.semaphore("permits", 2).try_acquire().unwrap().is_some());
}

#[test]
fn a_server_that_was_stopped_for_longer_than_sessions_last_gives_nothing_to_two() {
    let server = Server::start();
    let [holder, other] = [0, 1].map(|_| server.client("ttl=1s&store_timeout=60s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&other, "x");
    server.signal(rustix::process::Signal::STOP);
    let stopped = Instant::now();
    until("it is lost", || !guard.is_held());
    assert!(stopped.elapsed() <= Duration::from_secs(1), "{:?}", stopped.elapsed());
    thread::sleep(Duration::from_millis(1_500));
    server.signal(rustix::process::Signal::CONT);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.is_held() && next.token() > guard.token() && !guard.is_held());
    given_back(next);
    until("nobody is left", || other.inspect("x").unwrap().is_free());
}
