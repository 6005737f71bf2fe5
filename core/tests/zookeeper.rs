//! Locks on servers that are stopped, killed and left, and what refuses a client there. Each test has a server of its
//! own.

mod zookeeper_server;

use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lockwright::blocking::{self, Client};
use lockwright::finding::Severity;
use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::{Kind, Token};
use rustix::process::Signal;
use zookeeper_server::{PATIENCE, PLAIN, Server, TLS, TOLD, open, until, waiting, within};

#[test]
fn a_server_that_is_stopped_takes_the_locks_along_at_their_deadline_and_not_later() {
    let server = Server::start();
    let client = server.client("ttl=2s");
    let guard = client.lock("x").acquire().unwrap();
    thread::sleep(Duration::from_millis(2_500));
    assert!(guard.is_held(), "it lasts for longer than a ttl");
    server.signal(Signal::STOP);
    let stopped = Instant::now();
    until("it is lost", || !guard.is_held());
    assert!(stopped.elapsed() <= Duration::from_secs(2), "{:?}", stopped.elapsed());
    assert_eq!(guard.why_lost(), Some(LossReason::Expired));
    server.signal(Signal::CONT);
    let next = client.lock("x").acquire().unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_server_that_is_killed_and_comes_back_has_who_holds_and_who_waits() {
    let server = Server::start();
    // A waiter looks by itself when that is over, and that is longer than this test waits.
    let [holder, waiter] = [0, 1].map(|_| server.client("ttl=90s"));
    let guard = holder.lock("x").acquire().unwrap();
    let hear = waiting(&waiter, "x");
    server.run("restart");
    assert!(guard.is_held() && hear.try_recv().is_err());
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let next = hear.recv_timeout(PATIENCE).unwrap();
    assert!(next.token() > token);
    // Its watch was told of while the waiter had no connection.
    let again = waiting(&holder, "x");
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
    drop(again.recv_timeout(PATIENCE).unwrap());
}

#[test]
fn a_node_that_somebody_else_deletes_is_told_to_its_holder() {
    let server = Server::start();
    let [holder, other] = [0, 1].map(|_| server.client("ttl=2s"));
    for pause in [Duration::ZERO, Duration::from_millis(1_200)] {
        let guard = holder.lock("x").acquire().unwrap();
        thread::sleep(pause);
        assert!(other.break_lock("x", guard.token()).unwrap());
        until("it is lost", || !guard.is_held());
        assert_eq!(guard.why_lost(), Some(LossReason::Broken));
    }
}

#[test]
fn what_the_servers_do_not_keep_a_session_for_is_refused_with_what_they_do() {
    let server = Server::start();
    let error = server.client("ttl=2h").lock("x").acquire().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("ttl=95960ms"), "{error}");
    let error = server.client("ttl=5s").lock("x").ttl(Duration::from_secs(6)).acquire().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("?ttl=6s"), "{error}");
}

#[test]
fn the_next_server_of_the_list_will_do() {
    let server = Server::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let uri = server.uri.replace("zookeeper://", &format!("zookeeper://{nobody},{nobody},"));
    for _ in 0..3 {
        drop(open(&uri).unwrap().lock("x").acquire().unwrap());
    }
    let began = Instant::now();
    let error = open(&format!("zookeeper://{nobody},{nobody}")).unwrap().lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("nothing listens there"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn whoever_has_no_right_to_a_lock_is_told_so() {
    let server = Server::start();
    let with = |login: &str| open(&server.uri.replace("://", &format!("://{login}@"))).unwrap();
    let (own, other) = (with("me:secret"), with("they:hunter2"));
    let guard = own.lock("x").acquire().unwrap();
    let error = other.lock("x").timeout(PATIENCE).acquire().unwrap_err();
    assert!(error.kind() == Kind::Auth && !error.to_string().contains("hunter2"), "{error}");
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn certificates_and_a_login_by_sasl_let_in_whom_they_should_and_nobody_else() {
    let server = Server::start_by(TLS, "");
    let lock = |uri: &str| open(uri).unwrap().lock("x").timeout(PATIENCE).acquire();
    let guard = lock(&server.uri).unwrap();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    // The nodes of a user alone are closed to whoever only has the same certificate, whose rights `creator` has, too.
    let (user, rest) = server.uri.split_once("://").unwrap().1.split_once('@').unwrap();
    let password = user.split_once(':').unwrap().1;
    let own = format!("{}&acl=sasl:lockwright:cdrwa", server.uri.replace("/locks?", "/own?"));
    assert_eq!(lock(&own).unwrap().release().unwrap(), ReleaseOutcome::Released);
    let nobody = format!("zookeepers://{rest}").replace("&login=digest-md5", "");
    assert_eq!(lock(&nobody).unwrap().release().unwrap(), ReleaseOutcome::Released);
    let error = lock(&nobody.replace("/locks?", "/own?")).unwrap_err();
    assert_eq!(error.kind(), Kind::Auth, "{error}");
    let error = lock(&server.uri.replace(password, "hunter2")).unwrap_err();
    assert!(error.kind() == Kind::Auth && !error.to_string().contains("hunter2"), "{error}");
    // Without a certificate, or an authority that knows the server's, nobody gets as far as that.
    let without = |option: &str| {
        let options = server.uri.split('&').filter(|part| !part.starts_with(option)).collect::<Vec<_>>();
        options.join("&")
    };
    let certificate =
        without("cert=").split('&').filter(|part| !part.starts_with("key=")).collect::<Vec<_>>().join("&");
    for uri in [certificate, without("ca=")] {
        let uri = format!("{uri}&store_timeout=1s");
        let error = lock(&uri).unwrap_err();
        assert!(matches!(error.kind(), Kind::Unavailable | Kind::Auth), "{error}");
    }
    let plain =
        server.uri.split('&').filter(|part| !["ca=", "cert=", "key="].iter().any(|name| part.starts_with(name)));
    let plain = plain.collect::<Vec<_>>().join("&").replace("zookeepers://", "zookeeper://");
    assert!(lock(&format!("{plain}&store_timeout=1s")).is_err());
}

#[test]
fn rights_are_what_the_address_says() {
    let server = Server::start();
    let with = |login: &str, acl: &str| {
        open(&format!("{}&acl={acl}", server.uri.replace("://", &format!("://{login}@")))).unwrap()
    };
    let (own, other) = (with("me:secret", "creator"), with("they:hunter2", "creator"));
    let guard = own.lock("mine").acquire().unwrap();
    assert_eq!(other.lock("mine").timeout(PATIENCE).acquire().unwrap_err().kind(), Kind::Auth);
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let (own, other) = (with("me:secret", "open"), with("they:hunter2", "open"));
    let guard = own.lock("everybodys").acquire().unwrap();
    assert!(other.lock("everybodys").try_acquire().unwrap().is_none());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    assert!(other.lock("everybodys").try_acquire().unwrap().is_some());
}

#[test]
fn a_directory_that_the_server_removed_is_made_again() {
    let server = Server::start_by(PLAIN, "-Dznode.container.checkIntervalMs=200");
    let client = server.client("ttl=20s");
    for _ in 0..2 {
        assert_eq!(client.lock("x").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
        // What is left is ZooKeeper's own.
        let own = "Node count: 5";
        until("the directories are gone", || server.ask("srvr").contains(own));
    }
    let deep = open(&server.uri.replace("/locks?", "/a/b/c?")).unwrap();
    assert_eq!(deep.lock("x").acquire().unwrap().release().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_client_that_is_closed_leaves_no_session() {
    let server = Server::start();
    let client = server.client("ttl=20s");
    let guard = client.lock("x").acquire().unwrap();
    until("there is its node", || server.ask("dump").contains("/locks/x/_c_"));
    client.close();
    assert_eq!(guard.why_lost(), Some(LossReason::Closed));
    until("the session is over", || server.ask("dump").contains("Sessions with Ephemerals (0)"));
}

#[test]
fn something_else_that_listens_there_is_no_zookeeper() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("zookeeper://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = blocking::connect(&uri).unwrap().lock("x").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::Protocol && error.to_string().contains("no answer of ZooKeeper"), "{error}");
}

#[test]
fn a_server_that_ends_every_connection_has_no_majority_or_expects_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("zookeeper://{}?store_timeout=300ms", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().for_each(drop));
    let error = blocking::connect(&uri).unwrap().lock("x").try_acquire().unwrap_err();
    let said = error.to_string();
    assert!(error.kind() == Kind::Unavailable && said.contains("majority") && said.contains("zookeepers://"), "{said}");
}

/// A semaphore and a read/write lock, as people have them there.
#[test]
fn readers_writers_and_permits_are_told_of_one_another() {
    let server = Server::start();
    let [one, other] = [0, 1].map(|_| server.client("ttl=90s"));
    for layout in ["curator", "kazoo"] {
        let name = format!("both-{layout}");
        let (read, write) = (one.rwlock(&name).read().layout(layout), other.rwlock(&name).write().layout(layout));
        let reader = read.acquire().unwrap();
        let writer = write.build().unwrap();
        assert!(writer.try_acquire().unwrap().is_none());
        let (tell, hear) = mpsc::channel();
        thread::spawn(move || tell.send(writer.acquire().unwrap()));
        until("it waits", || one.rwlock(&name).read().layout(layout).try_acquire().unwrap().is_none());
        let token = reader.token();
        assert_eq!(reader.release().unwrap(), ReleaseOutcome::Released);
        let writer = hear.recv_timeout(PATIENCE).unwrap();
        assert!(writer.token() > token);
        writer.downgrade().unwrap();
        let second = one.rwlock(&name).read().layout(layout).try_acquire().unwrap().expect("both read");
        assert!(!writer.try_upgrade().unwrap());
        assert_eq!(second.release().unwrap(), ReleaseOutcome::Released);
        let before = writer.token();
        assert!(writer.try_upgrade().unwrap() && writer.token() > before);
        assert!(one.rwlock(&name).read().layout(layout).try_acquire().unwrap().is_none());
        assert_eq!(writer.release().unwrap(), ReleaseOutcome::Released);
    }
    let permits = |client: &Client, take| client.semaphore("permits", 3).take(take).build().unwrap();
    let two = permits(&one, 2).acquire().unwrap();
    let last = permits(&other, 1).acquire().unwrap();
    assert!(permits(&one, 1).try_acquire().unwrap().is_none());
    let (tell, hear) = mpsc::channel();
    let wants = permits(&other, 3);
    thread::spawn(move || tell.send(wants.acquire().unwrap()));
    until("it waits", || one.inspect("permits").unwrap().waiters == 1);
    let seen = one.inspect("permits").unwrap().shared.unwrap();
    assert_eq!((seen.held, seen.holders.len(), seen.permits), (3, 2, None));
    assert_eq!(last.release().unwrap(), ReleaseOutcome::Released);
    assert!(hear.recv_timeout(Duration::from_millis(300)).is_err());
    assert_eq!(two.release().unwrap(), ReleaseOutcome::Released);
    let three = hear.recv_timeout(TOLD).unwrap();
    assert_eq!(one.inspect("permits").unwrap().shared.unwrap().held, 3);
    assert!(one.break_lock("permits", three.token()).unwrap());
    within(TOLD, "it is lost", || !three.is_held());
    assert!(permits(&one, 3).try_acquire().unwrap().is_some());
}

/// The watch of leases goes on over a connection that is lost.
#[test]
fn whoever_waits_for_a_permit_waits_on_at_a_server_that_was_killed() {
    let server = Server::start();
    let [holder, waiter] = [0, 1].map(|_| server.client("ttl=90s"));
    let guard = holder.semaphore("x", 1).acquire().unwrap();
    let (tell, hear) = mpsc::channel();
    let lock = waiter.semaphore("x", 1).build().unwrap();
    thread::spawn(move || tell.send(lock.acquire().unwrap()));
    until("it waits", || holder.inspect("x").unwrap().waiters == 1);
    server.run("restart");
    assert!(guard.is_held() && hear.try_recv().is_err());
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    drop(hear.recv_timeout(TOLD).unwrap());
}

#[test]
fn locks_of_two_libraries_under_one_name_are_refused() {
    let server = Server::start();
    let [one, other] = [0, 1].map(|_| server.client("ttl=90s"));
    let curator = one.lock("x").acquire().unwrap();
    let error = other.lock("x").layout("kazoo").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::ForeignLayout && error.to_string().contains("a lock of Curator"), "{error}");
    let error = other.rwlock("x").read().acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    let error = other.semaphore("x", 2).acquire().unwrap_err();
    assert_eq!(error.kind(), Kind::ForeignLayout, "{error}");
    assert_eq!(curator.release().unwrap(), ReleaseOutcome::Released);
    let kazoo = other.lock("x").layout("kazoo").acquire().unwrap();
    assert_eq!(one.lock("x").acquire().unwrap_err().kind(), Kind::ForeignLayout);
    assert_eq!(kazoo.release().unwrap(), ReleaseOutcome::Released);
    assert!(one.lock("x").try_acquire().unwrap().is_some());
    let permit = other.semaphore("y", 2).layout("kazoo").acquire().unwrap();
    let error = one.lock("y").layout("kazoo").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::ForeignLayout && error.to_string().contains("a semaphore of kazoo"), "{error}");
    let error = one.semaphore("y", 3).layout("kazoo").try_acquire().unwrap_err();
    assert!(error.kind() == Kind::InvalidConfig && error.to_string().contains("2 permits, and not 3"), "{error}");
    assert_eq!(permit.release().unwrap(), ReleaseOutcome::Released);
}

/// kazoo's permits have no order: whoever wants one waits in the line beside them.
#[test]
fn permits_of_kazoos_are_waited_for_shown_broken_and_listed() {
    let server = Server::start();
    let [one, other] = [0, 1].map(|_| server.client("ttl=90s&layout=kazoo"));
    let permits = |client: &Client, take| client.semaphore("x", 3).take(take).build().unwrap();
    let two = permits(&one, 2).acquire().unwrap();
    let last = permits(&other, 1).acquire().unwrap();
    assert!(permits(&one, 1).try_acquire().unwrap().is_none());
    let (tell, hear) = mpsc::channel();
    let wants = permits(&other, 2);
    thread::spawn(move || tell.send(wants.acquire().unwrap()));
    until("it waits", || one.inspect("x").unwrap().waiters == 1);
    let seen = one.inspect("x").unwrap().shared.unwrap();
    assert_eq!((seen.held, seen.holders.len(), seen.permits), (3, 2, None));
    assert_eq!(one.list().unwrap(), ["x"]);
    assert_eq!(last.release().unwrap(), ReleaseOutcome::Released);
    assert!(hear.recv_timeout(Duration::from_millis(300)).is_err());
    assert!(one.break_lock("x", two.token()).unwrap());
    let next = hear.recv_timeout(TOLD).unwrap();
    within(TOLD, "it is lost", || !two.is_held());
    server.run("restart");
    assert!(next.is_held());
    let again = permits(&one, 2);
    let (tell, hear) = mpsc::channel();
    thread::spawn(move || tell.send(again.acquire().unwrap()));
    until("it waits", || other.inspect("x").unwrap().waiters == 1);
    assert_eq!(next.release().unwrap(), ReleaseOutcome::Released);
    drop(hear.recv_timeout(TOLD).unwrap());
}

/// Curator's message, which its `Revoker` writes to a holder's node.
#[test]
fn whoever_holds_is_told_that_others_ask_for_the_lock_also_over_another_connection() {
    let server = Server::start();
    let [holder, other] = [0, 1].map(|_| server.client("ttl=90s"));
    let lock = holder.lock("x").revocable().build().unwrap();
    let guard = lock.acquire().unwrap();
    let (tell, hear) = mpsc::channel();
    guard.on_release_requested(move || tell.send(()).unwrap());
    server.run("restart");
    let asks = other.lock("x").build().unwrap();
    assert!(!asks.request_release(Token::new(1)).unwrap());
    assert!(hear.try_recv().is_err() && !guard.release_requested());
    assert!(asks.request_release(guard.token()).unwrap());
    hear.recv_timeout(PATIENCE).unwrap();
    assert!(guard.release_requested() && guard.is_held());
    let (tell, hear) = mpsc::channel();
    guard.on_release_requested(move || tell.send(()).unwrap());
    hear.try_recv().unwrap();
    let token = guard.token();
    assert_eq!(guard.release().unwrap(), ReleaseOutcome::Released);
    let next = lock.acquire().unwrap();
    assert!(!next.release_requested(), "that was asked of the one before");
    assert!(!asks.request_release(token).unwrap());
    for layout in ["kazoo", "curator"] {
        let refused = other.rwlock("y").read().layout(layout).revocable().build().unwrap_err();
        assert!(refused.kind() == Kind::Unsupported && refused.to_string().contains("revocable"), "{refused}");
    }
}

#[test]
fn a_server_that_is_fit_says_so_and_that_it_is_alone() {
    let server = Server::start();
    let client = server.client("");
    let checks = || -> Vec<_> { client.examine().unwrap().iter().map(|one| (one.check, one.severity)).collect() };
    let of = |check| (check, Severity::Ok);
    let server = [("members", Severity::Note), of("version"), of("leader"), of("sessions")];
    let nothing = [&server[..], &["locks", "containers"].map(of)].concat();
    assert_eq!(checks(), nothing, "nothing was locked yet, so nothing can be made by which the time is told");
    let fit = [&server[..], &["clock", "locks", "containers"].map(of)].concat();
    let guard = client.lock("x").acquire().unwrap();
    assert_eq!(checks(), fit);
    drop(guard);
    let below = client.lock("x/y").acquire().unwrap();
    assert_eq!(checks(), fit, "a name of ours is one directory, whatever is in it");
    drop(below);
}
