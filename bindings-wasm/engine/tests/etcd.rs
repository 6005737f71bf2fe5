//! The engine on a real etcd by its gateway: `conformance/services/etcd.sh start`, and `LOCKWRIGHT_TEST_ETCD`.

mod http;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::{Host, member, now};
use lockwright_machines::error::Kind;
use lockwright_machines::layout_choice::Of;
use lockwright_machines::lease::{LossReason, ReleaseOutcome};
use lockwright_machines::time::Time;
use lockwright_wasm_engine::{Latch, Outcome, Ticket};

const SECOND: Duration = Duration::from_secs(1);

/// `etcdctl lock` that holds it until it is told to end, or waits.
struct Etcdctl(Child);

impl Etcdctl {
    fn lock(name: &str) -> Self {
        let mut asked = etcdctl(&["lock", name]);
        let child = asked.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Etcdctl(child.expect("etcdctl is part of the package etcd-client"))
    }
}

impl Drop for Etcdctl {
    fn drop(&mut self) {
        // It is told to give the lock back; its lease would last for 10 s.
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn etcdctl(arguments: &[&str]) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", &member()]).args(arguments);
    command
}

fn keys_of(name: &str) -> String {
    String::from_utf8(etcdctl(&["get", "--prefix", "--keys-only", name]).output().unwrap().stdout).unwrap()
}

#[test]
fn one_holds_the_lock_and_the_next_is_told_at_once() {
    let prefix = http::prefix("next");
    let (mut one, mut two) = (Host::new(&prefix), Host::new(&prefix));
    let mut held = one.acquire("x", None).unwrap();
    assert!(held.token().n > 0 && held.remaining(now()) > 25 * SECOND);
    assert!(matches!(two.outcome("x", Some(Duration::ZERO)), Ok(Outcome::Taken)));
    assert_eq!(two.outcome("x", Some(SECOND / 10)).unwrap_err().kind(), Kind::Timeout);
    let waits = std::thread::spawn({
        let prefix = prefix.clone();
        move || {
            let mut three = Host::new(&prefix);
            let token = three.acquire("x", None).unwrap().token();
            let had = now();
            three.close();
            (token, had)
        }
    });
    while one.inspect("x").waiters == 0 {
        std::thread::sleep(SECOND / 50);
    }
    // Its watch is old enough for it not to look by itself.
    std::thread::sleep(SECOND);
    let (token, released) = (held.token(), now());
    assert_eq!(one.release(&mut held), ReleaseOutcome::Released);
    let (next, had) = waits.join().unwrap();
    assert!(next > token && had.since(released) < 5 * SECOND, "it is told, and does not look by itself after 30 s");
    two.close();
    one.close();
    assert_eq!(keys_of(&prefix), "", "nothing is left");
}

#[test]
fn etcdctl_and_the_engine_exclude_one_another() {
    let prefix = http::prefix("foreign");
    let mut one = Host::new(&prefix);
    let name = format!("{prefix}x");
    let theirs = Etcdctl::lock(&name);
    while keys_of(&format!("{name}/")).is_empty() {
        std::thread::sleep(SECOND / 50);
    }
    assert!(matches!(one.outcome("x", Some(Duration::ZERO)), Ok(Outcome::Taken)));
    let ends = std::thread::spawn(move || {
        std::thread::sleep(SECOND / 2);
        drop(theirs);
    });
    let began = now();
    let mut ours = one.acquire("x", None).unwrap();
    assert!(now().since(began) < 5 * SECOND, "it was given back, and did not expire");
    ends.join().unwrap();
    let mut waits = Etcdctl::lock(&name);
    std::thread::sleep(SECOND);
    assert_eq!(one.inspect("x").waiters, 1);
    assert!(waits.0.try_wait().unwrap().is_none());
    assert_eq!(one.release(&mut ours), ReleaseOutcome::Released);
    while one.inspect("x").waiters > 0 {
        std::thread::sleep(SECOND / 50);
    }
    assert!(matches!(one.outcome("x", Some(Duration::ZERO)), Ok(Outcome::Taken)));
    one.close();
}

#[test]
fn whoever_goes_on_without_a_word_is_waited_for_until_its_lease_ends() {
    let prefix = http::prefix("expiry");
    let address = format!("etcd://{}?prefix={prefix}&ttl=2s", member());
    let (mut gone, mut next) = (Host::at(&address), Host::at(&address));
    let held = gone.acquire("x", None).unwrap();
    let began = now();
    // Nobody looks at it, so nothing is renewed.
    let after = next.acquire("x", None).unwrap();
    assert!(now().since(began) > SECOND, "it was held");
    assert_eq!(held.remaining(now()), Duration::ZERO);
    assert!(after.token() > held.token());
    next.until_time(now().after(3 * SECOND));
    assert!(after.remaining(now()) > SECOND, "what is looked at is kept alive");
    next.renew(&after, 2 * SECOND).unwrap();
    assert_eq!(next.renew(&after, 3 * SECOND).unwrap_err().kind(), Kind::Unsupported);
    // It learns that its lease is over, and has another one.
    assert_eq!(gone.renew(&held, 2 * SECOND).unwrap_err().kind(), Kind::Lost);
    assert!(matches!(gone.outcome("x", Some(Duration::ZERO)), Ok(Outcome::Taken)));
    assert!(gone.acquire("y", Some(Duration::ZERO)).unwrap().remaining(now()) > SECOND);
    gone.close();
    next.close();
    assert_eq!(keys_of(&prefix), "", "nothing is left");
}

#[test]
fn what_an_operator_breaks_is_told_once_its_lease_is_kept_alive() {
    let prefix = http::prefix("broken");
    let address = format!("etcd://{}?prefix={prefix}&ttl=3s", member());
    let (mut holder, mut operator) = (Host::at(&address), Host::at(&address));
    let (held, kept) = (holder.acquire("x", None).unwrap(), holder.acquire("y", None).unwrap());
    holder.until_time(now().after(2 * SECOND));
    assert!(operator.break_hold("x", held.token().n));
    let told_by = now().after(10 * SECOND);
    while held.why_lost(now()).is_none() && now() < told_by {
        holder.until_time(now().after(SECOND / 20));
    }
    assert_eq!(held.why_lost(now()), Some(LossReason::Broken));
    assert!(kept.remaining(now()) > SECOND, "nothing else is lost");
    holder.close();
    operator.close();
    assert_eq!(keys_of(&prefix), "", "nothing is left");
}

/// Somebody else at the address, who says this to whatever is asked.
fn somebody_who_says(said: &'static str) -> u16 {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listening.local_addr().unwrap().port();
    let answer = move |mut asked: TcpStream| {
        let _ = asked.read(&mut [0; 4096]);
        let _ = asked.write_all(said.as_bytes());
    };
    std::thread::spawn(move || listening.incoming().flatten().for_each(answer));
    port
}

#[test]
fn what_is_wrong_with_the_server_is_told() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let redis = somebody_who_says("-ERR unknown command 'POST'\r\n");
    let site = somebody_who_says("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found");
    for (port, kind, part) in [
        (nobody, Kind::Unavailable, "nothing listens there"),
        (redis, Kind::Protocol, "speaks no HTTP"),
        (site, Kind::Protocol, "no etcd with a JSON gateway"),
    ] {
        let address = format!("etcd://127.0.0.1:{port}?store_timeout=300ms");
        let error = Host::at(&address).outcome("x", Some(Duration::ZERO)).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(part), "{error}");
        assert!(error.to_string().contains(&format!("lock \"x\" on etcd://127.0.0.1:{port}")), "{error}");
    }
    // The next of its members is asked.
    let address = format!("etcd://127.0.0.1:{nobody},{}?prefix={}", member(), http::prefix("members"));
    let mut host = Host::at(&address);
    assert!(host.acquire("x", None).is_ok());
    host.close();
}

#[test]
fn a_user_has_a_token_that_is_asked_for_again_when_it_has_ended() {
    let mut host = Host::at("etcd://me:secret@h");
    let lock = host.engine.lock("x", host.engine.lock_options()).unwrap();
    host.engine.acquire(now(), &lock, None).unwrap();
    let login = host.posted();
    assert_eq!((login.path, &*login.body), ("/v3/auth/authenticate", r#"{"name":"me","password":"secret"}"#));
    host.answer(&login, 200, r#"{"header":{"revision":"1"},"token":"first"}"#);
    let grant = host.posted();
    assert_eq!(
        (grant.path, grant.token.as_deref(), &*grant.body),
        ("/v3/lease/grant", Some("first"), r#"{"TTL":"30"}"#)
    );
    host.answer(&grant, 200, r#"{"header":{"revision":"1"},"ID":"31","TTL":"30"}"#);
    let fence = host.posted();
    let ended = r#"{"code":16,"message":"etcdserver: invalid auth token"}"#;
    host.answer(&fence, 401, ended);
    let login = host.posted();
    assert_eq!(login.path, "/v3/auth/authenticate");
    host.answer(&login, 200, r#"{"header":{"revision":"1"},"token":"second"}"#);
    let grant = host.posted();
    assert_eq!((grant.path, grant.token.as_deref()), ("/v3/lease/grant", Some("second")));
    // One that never was of any use is not asked for again: the acquisition fails, and is undone.
    host.answer(&grant, 401, ended);
    let undo = host.posted();
    assert_eq!((undo.path, undo.token.as_deref()), ("/v3/kv/txn", Some("second")));
    assert!(host.engine.next_action().is_none());
}

#[test]
fn what_several_share_and_what_is_waited_for() {
    let prefix = http::prefix("shared");
    let (mut one, mut two) = (Host::new(&prefix), Host::new(&prefix));
    let takes =
        |host: &mut Host, of, name| matches!(host.outcome_of(of, name, Some(Duration::ZERO)), Ok(Outcome::Granted(_)));
    assert!(takes(&mut one, Of::Read, "x") && takes(&mut two, Of::Read, "x") && !takes(&mut two, Of::Write, "x"));
    let permit = Of::Permits { take: 1, permits: 2 };
    assert_eq!([(); 3].map(|()| takes(&mut one, permit, "s")), [true, true, false]);
    let pass = |host: &mut Host| {
        let barrier = host.engine.barrier("b", 2, 10 * SECOND).unwrap();
        let asked = host.engine.acquire(now(), barrier.gate(), None).unwrap();
        host.until(|engine| engine.is_settled(asked.ticket));
        host.engine.passed(now(), asked).unwrap().unwrap().index
    };
    let other = std::thread::spawn({
        let prefix = prefix.clone();
        move || {
            let mut three = Host::new(&prefix);
            let index = pass(&mut three);
            three.close();
            index
        }
    });
    let mut indexes = [pass(&mut one), other.join().unwrap()];
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1]);
    let mut held = two.acquire("y", None).unwrap();
    let export = two.engine.export(now(), &mut held, 5 * SECOND).unwrap();
    two.until(|engine| engine.is_settled(export));
    assert_eq!(two.engine.exported(now(), &mut held, export).unwrap_err().kind(), Kind::Unsupported);
    assert!(held.remaining(now()) > 25 * SECOND, "it is held as before");
    one.close();
    two.close();
}

#[test]
fn a_latch_opens_once_all_have_counted_down_and_each_counts_once() {
    const COUNT: u32 = 16;
    let prefix = http::prefix("latch");
    let waits = std::thread::spawn({
        let prefix = prefix.clone();
        move || {
            let mut host = Host::new(&prefix);
            let latch = host.engine.latch("l", COUNT, 120 * SECOND).unwrap();
            let asked = host.engine.acquire(now(), latch.gate(), None).unwrap();
            host.until(|engine| engine.is_settled(asked.ticket));
            let passed = host.engine.passed(now(), asked).unwrap();
            host.close();
            (passed.is_some(), now())
        }
    });
    let mut host = Host::new(&prefix);
    while host.inspect("l").waiters == 0 {
        std::thread::sleep(SECOND / 50);
    }
    // All but one at once, by two hosts: whoever was not as fast reads the count again.
    let counts = [(); 2].map(|()| {
        let prefix = prefix.clone();
        std::thread::spawn(move || {
            let mut host = Host::new(&prefix);
            let latch = host.engine.latch("l", COUNT, 60 * SECOND).unwrap();
            let half = COUNT / 2 - 1;
            let tickets: Vec<_> = (0..half).map(|_| host.engine.count_down(now(), &latch).unwrap()).collect();
            host.until(|engine| tickets.iter().all(|ticket| engine.is_settled(*ticket)));
            let left = tickets.into_iter().map(|ticket| host.engine.left(&latch, ticket).unwrap().unwrap());
            let left: Vec<_> = left.collect();
            host.close();
            left
        })
    });
    let mut left: Vec<_> = counts.into_iter().flat_map(|counts| counts.join().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, (2..COUNT).collect::<Vec<_>>());
    let latch = host.engine.latch("l", COUNT, 60 * SECOND).unwrap();
    let mut asks = |ask: fn(&mut Host, &Latch) -> Ticket| {
        let ticket = ask(&mut host, &latch);
        host.until(|engine| engine.is_settled(ticket));
        host.engine.left(&latch, ticket).unwrap()
    };
    assert_eq!(asks(|host, latch| host.engine.ask_count(now(), latch).unwrap()), Some(2));
    assert_eq!(asks(|host, latch| host.engine.set_count(now(), latch, 5).unwrap()), None);
    let count_down = |host: &mut Host, latch: &Latch| host.engine.count_down(now(), latch).unwrap();
    assert_eq!(asks(count_down), Some(1));
    assert!(!waits.is_finished());
    let opened = now();
    assert_eq!(asks(count_down), Some(0));
    let (passed, at) = waits.join().unwrap();
    assert!(passed && at.since(opened) < 5 * SECOND, "it is told, and does not look by itself after 30 s");
    assert_eq!(asks(|host, latch| host.engine.set_count(now(), latch, 5).unwrap()), Some(5));
    // It is kept for as long as the longest of them said, beside no client's lease; and it is no lock.
    let lock = host.outcome("l", Some(Duration::ZERO)).unwrap_err();
    assert_eq!(lock.kind(), Kind::ForeignLayout, "{lock}");
    host.close();
    let kept = String::from_utf8(etcdctl(&["get", &format!("{prefix}l/latch/state/count")]).output().unwrap().stdout);
    assert!(kept.unwrap().ends_with("5 120\n"));
}

#[test]
fn who_waits_is_told_who_goes_and_looks_after_its_watch_broke() {
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let mut host = Host::at("etcd://h");
    let lock = host.engine.lock("x", host.engine.lock_options()).unwrap();
    let asked = host.engine.acquire(at(1000), &lock, None).unwrap();
    let header = r#""header":{"revision":"7"}"#;
    let grant = host.posted();
    host.answer_at(at(1000), &grant, 200, &format!(r#"{{{header},"ID":"31","TTL":"30"}}"#));
    let fence = host.posted();
    let put = r#"{"response_put":{}}"#;
    host.answer_at(at(1000), &fence, 200, &format!(r#"{{{header},"succeeded":true,"responses":[{put}]}}"#));
    // Another one, x/2f, came first.
    let queue = r#"{"response_range":{"kvs":[{"key":"eC8yZg==","create_revision":"5","lease":"47"}]}}"#;
    let join = host.posted();
    host.answer_at(
        at(1000),
        &join,
        200,
        &format!(r#"{{{header},"succeeded":true,"responses":[{put},{queue},{put}]}}"#),
    );
    let watch = host.posted();
    assert_eq!((watch.path, host.engine.next_action().is_none()), ("/v3/watch", true));
    let stands = format!("{{\"result\":{{{header},\"created\":true}}}}\n");
    host.engine.came(watch.number, at(1000), 200, stands.as_bytes());
    // A watch that is young may be late, so it looks once more; later it goes by what it is told.
    host.engine.look(at(1200));
    let look = host.posted();
    let own = r#"{"response_range":{"kvs":[{"create_revision":"7","lease":"31"}]}}"#;
    host.answer_at(at(1200), &look, 200, &format!(r#"{{{header},"succeeded":true,"responses":[{own},{queue}]}}"#));
    host.engine.look(at(2000));
    assert!(host.engine.next_action().is_none());
    host.engine.ended(watch.number, at(2000), Ok(()));
    host.engine.look(at(2049));
    assert!(host.engine.next_action().is_none(), "it does not look at once, again and again");
    host.engine.look(at(2050));
    let look = host.posted();
    host.answer_at(at(2050), &look, 200, &format!(r#"{{{header},"succeeded":true,"responses":[{own},{queue}]}}"#));
    let watch = host.posted();
    assert_eq!(watch.path, "/v3/watch");
    host.engine.came(watch.number, at(2050), 200, stands.as_bytes());
    // A message may come in parts.
    let gone = r#"{"result":{"events":[{"type":"DELETE","kv":{"key":"eC8yZg==","mod_revision":"8"}}]}}"#;
    let (begins, ends) = gone.split_at(40);
    host.engine.came(watch.number, at(2051), 200, begins.as_bytes());
    assert!(!host.engine.is_settled(asked.ticket));
    host.engine.came(watch.number, at(2052), 200, format!("{ends}\n").as_bytes());
    assert!(host.engine.is_settled(asked.ticket), "it has the lock without another question");
}
