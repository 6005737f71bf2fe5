//! Locks on a memcached that is restarted, emptied, full, stopped and killed, and what refuses a client there. Each
//! test has a server of its own.

mod memcached_server;

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use lockwright::Kind;
use lockwright::blocking::{Client, Guard};
use lockwright::finding::Severity;
use lockwright::lease::{LossReason, ReleaseOutcome};
use memcached_server::{GREETING, Proxy, Server, impostor, open, until};
use rustix::process::Signal;

fn take(client: &Client, name: &str) -> Guard {
    client.lock(name).acquire().unwrap()
}

fn kind_of_try(client: &Client) -> Kind {
    client.lock("x").try_acquire().unwrap_err().kind()
}

#[test]
fn a_lock_is_a_value_that_ends_by_itself_and_its_number_is_the_token() {
    let server = Server::start();
    let [one, two] = [0, 1].map(|_| server.client("ttl=2s"));
    let mut other = server.other();
    let guard = take(&one, "x");
    let seen = two.inspect("x").unwrap().holder.unwrap();
    assert_eq!((seen.first_token, seen.card.pid), (guard.token().n, std::process::id()));
    assert!(seen.remaining >= Duration::from_secs(2) && seen.remaining <= Duration::from_secs(6), "{seen:?}");
    assert!(two.lock("x").try_acquire().unwrap().is_none());
    assert!(other.ask("add x 0 9 1\r\n1") == "NOT_STORED" && other.value("x").is_some());
    // It is renewed, under another number of the server's and the same token.
    thread::sleep(Duration::from_millis(2_500));
    assert!(guard.is_held());
    assert_eq!(two.inspect("x").unwrap().holder.unwrap().first_token, guard.token().n);
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(other.value("x"), None);
    let next = take(&two, "x");
    assert!(next.token() > token);
    assert!(one.break_lock("x", token).is_ok_and(|broken| !broken));
    assert!(one.break_lock("x", next.token()).unwrap());
    assert_eq!(other.value("x"), None);
}

#[test]
fn whoever_dies_is_followed_soon_after_its_ttl() {
    let server = Server::start();
    let gone = server.client("ttl=1s&renew=false");
    let began = Instant::now();
    let guard = take(&gone, "x");
    let left = guard.remaining();
    let until_then = Instant::now() + left;
    std::mem::forget(guard);
    drop(take(&server.client(""), "x"));
    assert!(Instant::now() >= until_then && began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_is_restarted_has_forgotten_the_lock_and_the_next_renewal_tells() {
    let server = Server::start();
    let guard = take(&server.client("ttl=6s"), "x");
    let began = Instant::now();
    server.run("restart");
    let next = take(&server.client(""), "x");
    until("it is lost", || !guard.is_held());
    assert!(began.elapsed() < Duration::from_secs(6), "before its deadline: {:?}", began.elapsed());
    assert_eq!(guard.why_lost(), Some(LossReason::Gone));
    assert!(!matches!(guard.release(), Ok(ReleaseOutcome::Released)));
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_number_that_was_given_out_again_after_a_restart_is_not_taken_for_the_old_one() {
    let server = Server::start();
    let holder = server.client("ttl=60s");
    let guard = take(&holder, "x");
    assert_eq!(guard.token().n, 1, "the first number of a server");
    server.run("restart");
    let mut other = server.other();
    assert_eq!(other.ask("set x 0 0 5\r\ntheir"), "STORED");
    assert!(other.ask("mg x c").starts_with("HD c1"), "the same number");
    let released = guard.release();
    assert!(!matches!(released, Ok(ReleaseOutcome::Released)), "{released:?}");
    assert_eq!(other.value("x").as_deref(), Some("their"));
}

#[test]
fn a_server_that_is_emptied_takes_the_lock_along_and_the_next_renewal_tells() {
    let server = Server::start();
    let guard = take(&server.client("ttl=3s"), "x");
    assert_eq!(server.other().ask("flush_all"), "OK");
    until("it is lost", || !guard.is_held());
    assert_eq!(guard.why_lost(), Some(LossReason::Gone));
}

#[test]
fn a_full_server_that_evicts_forgets_the_lock_and_the_next_renewal_tells() {
    let server = Server::start_with("-m 2");
    let guard = take(&server.client("ttl=240s"), "x");
    let mut other = server.other();
    // Room is kept for each size.
    let size = other.value("x").unwrap().len();
    until("it is evicted", || {
        (0..500).for_each(|_| drop(other.put(size)));
        // What is looked at by `mg` is kept for longer.
        other.ask("me x") == "EN"
    });
    assert!(guard.is_held(), "nobody has told it yet");
    assert_eq!(guard.extend(Duration::from_secs(240)).unwrap_err().kind(), Kind::Lost);
    assert_eq!(guard.why_lost(), Some(LossReason::Gone));
    let findings = server.client("").examine().unwrap();
    let evicts = findings.iter().find(|finding| finding.check == "eviction").unwrap();
    assert_eq!(evicts.severity, Severity::Warning);
}

#[test]
fn a_server_says_what_it_is_like() {
    let server = Server::start_with("-M");
    let found = server.client("").examine().unwrap();
    let checks: Vec<_> = found.iter().map(|one| (one.check, one.severity)).collect();
    let fit = ["version", "cas", "eviction", "memory", "item_size"].map(|check| (check, Severity::Ok));
    assert_eq!(checks, [&fit[..], &[("restart", Severity::Note), ("servers", Severity::Note)]].concat());
    assert!(found[4].found.contains(" 1048576 "), "{found:?}");
}

#[test]
fn a_full_server_that_evicts_nothing_refuses_locks_and_keeps_those_that_are_held() {
    let server = Server::start_with("-m 2 -M");
    let [holder, other] = ["ttl=30s", "store_timeout=300ms"].map(|options| server.client(options));
    let guard = take(&holder, "x");
    let before = server.other().value("x");
    assert!(server.other().fill(50_000), "it is full");
    let error = other.lock("new").acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("memory is full"), "{error}");
    // Whoever asks for a held lock finds no room to store its own, and takes nothing away.
    assert!(other.lock("x").try_acquire().map_or(true, |taken| taken.is_none()));
    assert_eq!(server.other().value("x"), before);
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_server_that_is_stopped_takes_the_lock_along_at_its_deadline() {
    let server = Server::start();
    let client = server.client("ttl=2s&store_timeout=300ms&response_timeout=200ms&connect_timeout=200ms");
    let guard = take(&client, "x");
    server.signal(Signal::STOP);
    let stopped = Instant::now();
    until("it is lost", || !guard.is_held());
    assert!(stopped.elapsed() <= Duration::from_secs(2), "{:?}", stopped.elapsed());
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    assert_eq!(kind_of_try(&client), Kind::Unavailable);
    server.signal(Signal::CONT);
    // What was asked in vain is undone or ends, so that somebody can have it.
    let next = take(&server.client(""), "x");
    assert!(next.token() > guard.token());
}

#[test]
fn a_connection_that_is_cut_takes_nothing_along() {
    let server = Server::start();
    let proxy = Proxy::start(server.port, false);
    let client = open(&format!("{}?ttl=2s", proxy.uri)).unwrap();
    let guard = take(&client, "x");
    proxy.cut();
    thread::sleep(Duration::from_millis(2_500));
    assert!(guard.is_held(), "it is renewed on another connection");
    proxy.cut();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(server.other().value("x"), None);
    for _ in 0..20 {
        proxy.cut();
        drop(take(&client, "x"));
    }
    until("nothing is left", || server.other().value("x").is_none());
}

#[test]
fn a_server_without_meta_commands_is_spoken_to_in_the_old_ones() {
    let server = Server::start();
    let proxy = Proxy::start(server.port, true);
    let [one, two] = [0, 1].map(|_| open(&format!("{}?ttl=1s", proxy.uri)).unwrap());
    let guard = take(&one, "x");
    assert!(two.lock("x").try_acquire().unwrap().is_none());
    assert!(server.client("").lock("x").try_acquire().unwrap().is_none(), "it is the same lock");
    thread::sleep(Duration::from_millis(2_500));
    assert!(guard.is_held());
    let token = guard.token();
    assert_eq!(two.inspect("x").unwrap().holder.unwrap().first_token, token.n);
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert_eq!(server.other().value("x"), None);
    assert!(take(&two, "x").token() > token);
}

#[test]
fn a_lock_of_another_library_is_waited_for_and_not_taken() {
    let server = Server::start();
    let client = server.client("");
    let mut other = server.other();
    assert_eq!(other.ask("add x 0 0 8\r\na-member"), "STORED");
    assert!(client.lock("x").try_acquire().unwrap().is_none());
    let holder = client.inspect("x").unwrap().holder.unwrap();
    assert_eq!((&*holder.card.language, holder.remaining), ("another library", Duration::MAX));
    let waiter = thread::spawn({
        let lock = client.lock("x").build().unwrap();
        move || lock.acquire().unwrap().token()
    });
    assert_eq!(other.ask("delete x"), "DELETED");
    assert!(waiter.join().unwrap().n > 1);
}

#[test]
fn a_login_is_asked_for_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ada:s3cret\n").unwrap();
    let server = Server::start_with(&format!("-Y {}", file.display()));
    let with = |login: &str| open(&format!("memcached://{login}127.0.0.1:{}", server.port)).unwrap();
    drop(take(&with("ada:s3cret@"), "x"));
    for login in ["", "ada:wrong@", "bob:s3cret@"] {
        let error = with(login).lock("x").acquire().unwrap_err();
        assert!(error.kind() == Kind::Auth && !error.to_string().contains("s3cret"), "{login}: {error}");
    }
}

#[test]
fn a_login_that_nobody_asked_for_is_kept_nowhere() {
    let server = Server::start();
    drop(take(&open(&server.uri.replace("//", "//ada:s3cret@")).unwrap(), "x"));
    assert_eq!(server.other().value("lockwright"), None);
}

#[test]
fn a_server_that_cannot_keep_locks_is_refused() {
    let without_numbers = Server::start_with("-C");
    let client = without_numbers.client("");
    let error = client.lock("x").acquire().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("-C"), "{error}");
    assert_eq!(without_numbers.other().value("x"), None, "before anything is stored");
}

#[test]
fn what_is_no_memcached_is_told() {
    let quick =
        |uri: &str| open(&format!("{uri}?store_timeout=300ms&response_timeout=200ms&connect_timeout=200ms")).unwrap();
    for first in ["HTTP/1.1 400 Bad Request\r\n\r\n", "+PONG\r\n", "MN\r\nSTAT pid 7\r\nEND\r\nEND\r\nmore"] {
        assert_eq!(kind_of_try(&quick(&impostor(first, ""))), Kind::Protocol, "{first}");
    }
    assert_eq!(kind_of_try(&quick(&impostor("MN\r\nEND\r\nEND\r\n", ""))), Kind::Unsupported, "a proxy");
    assert_eq!(kind_of_try(&quick(&impostor("MN\r\n", "MN\r\n"))), Kind::Unavailable, "it says no more");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(kind_of_try(&quick(&format!("memcached://{closed}"))), Kind::Unavailable);
}

#[test]
fn a_server_that_lies_is_not_believed() {
    let quick = |then| {
        let uri = impostor(GREETING, then);
        open(&format!("{uri}?store_timeout=300ms&response_timeout=200ms&connect_timeout=200ms")).unwrap()
    };
    for then in [
        "STORED\r\nVA 3 c1 t31\r\nabcdef\r\n",
        "GARBAGE\r\n",
        "STORED\r\nVA 99999999 c1 t31\r\n",
        "NOT_STORED\r\nEN\r\nEN\r\n",
        "STORED\r\nVA 1 c99999999999999999999 t1\r\nx\r\n",
    ] {
        assert_eq!(kind_of_try(&quick(then)), Kind::Protocol, "{then}");
    }
    // It stores, and there is never anything.
    assert_eq!(kind_of_try(&quick("STORED\r\nEN\r\n")), Kind::Unavailable);
    assert_eq!(kind_of_try(&quick("SERVER_ERROR out of memory storing object\r\nEN\r\n")), Kind::Unavailable);
    let held = quick("NOT_STORED\r\nVA 3 c1 t31\r\nabc\r\n");
    assert!(held.lock("x").try_acquire().unwrap().is_none());
}

#[test]
fn what_cannot_be_had_is_refused_when_the_lock_is_built() {
    let client = open("memcached://127.0.0.1:1").unwrap();
    let kind =
        |built: lockwright::Result<_>| built.map(|_: lockwright::blocking::Lock| ()).map_err(|error| error.kind());
    assert_eq!(kind(client.lock("x").ttl(Duration::from_millis(1_500)).build()), Err(Kind::InvalidConfig));
    assert_eq!(kind(client.lock("a b").build()), Err(Kind::InvalidConfig));
    assert_eq!(kind(client.lock(&"x".repeat(251)).build()), Err(Kind::InvalidConfig));
    assert_eq!(kind(client.lock("x").fair().build()), Err(Kind::Unsupported));
    assert_eq!(kind(client.lock(&"x".repeat(250)).build()), Ok(()));
    let error = client.list().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("which keys"), "{error}");
}

#[test]
fn a_client_that_holds_very_much_renews_and_gives_back_all_of_it() {
    let server = Server::start();
    let client = server.client("ttl=3s");
    let guards: Vec<_> = (0..2_000).map(|number| take(&client, &format!("x{number}"))).collect();
    thread::sleep(Duration::from_secs(4));
    assert!(guards.iter().all(Guard::is_held));
    drop(guards);
    client.close();
    let mut other = server.other();
    assert!((0..2_000).all(|number| other.value(&format!("x{number}")).is_none()));
}
