//! The adapter against real servers, which these tests start and stop themselves, and against hostile ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::super::config::Config;
use super::super::layouts::native_scripts::CALLS;
use super::{Connection, Redis};
use crate::error::{Error, Kind};
use crate::lease::ReleaseOutcome;
use crate::options::{ConnectOptions, Credentials};
use crate::platform::mutex::locked;
use crate::platform::{clock, runtime};
use crate::protocol::{
    AttemptId, Channel, InboxId, Input, Intent, Op, Previous, Reply, Requests, Step, StoreEvent, Terms, Verdict,
};
use crate::session::Inbox;
use crate::share::Share;
use crate::stores::{Answered, LayoutChoice, Outcome, Sink, Store, Subscription, Topic, layout_of};
use crate::time::{StoreTime, Time};
use crate::uri::Uri;

#[path = "tests/combined.rs"]
mod combined;
#[path = "tests/shortcut.rs"]
mod shortcut;

const ONE: InboxId = InboxId(0x11);
const TWO: InboxId = InboxId(0x22);

/// A server of this test alone, ended and removed with it.
struct Server {
    folder: PathBuf,
    port: u16,
    child: Mutex<Option<Child>>,
}

impl Server {
    fn start(configuration: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lockwright-redis-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server { folder, port, child: Mutex::default() };
        let plain = if configuration.contains("tls-port") { 0 } else { port };
        let configuration = configuration.replace("PORT", &port.to_string());
        let all = format!("bind 127.0.0.1\nport {plain}\nunixsocket socket\nsave \"\"\n{configuration}\n");
        std::fs::write(server.folder.join("redis.conf"), all).unwrap();
        server.launch();
        server
    }

    fn launch(&self) {
        let child = Command::new("redis-server")
            .arg("redis.conf")
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests start redis-server; install it (Debian: apt install redis-server)");
        *locked(&self.child) = Some(child);
        let give_up = Instant::now() + Duration::from_secs(10);
        while redis::Client::open(self.admin()).unwrap().get_connection().is_err() {
            assert!(Instant::now() < give_up, "redis-server does not come up in {:?}", self.folder);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(&self) {
        if let Some(mut child) = locked(&self.child).take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn admin(&self) -> String {
        format!("redis+unix://{}", self.folder.join("socket").display())
    }

    fn run(&self, words: &[&str]) -> redis::Value {
        let mut connection = redis::Client::open(self.admin()).unwrap().get_connection().unwrap();
        redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).unwrap()
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn store(&self) -> Arc<Redis> {
        store(&self.url())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn store(url: &str) -> Arc<Redis> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}response_timeout=500ms&connect_timeout=1s");
    opened(Uri::parse(&url, ConnectOptions::default()).unwrap())
}

fn opened(mut uri: Uri) -> Arc<Redis> {
    Arc::new(Redis::new(Config::read(&mut uri).unwrap()))
}

fn terms(who: u128, inbox: InboxId) -> Terms {
    let second = Duration::from_secs(1);
    Terms {
        name: "x".into(),
        attempt: AttemptId(who),
        inbox,
        ttl: second * 30,
        claim: second,
        card: "card".into(),
        fair: false,
        rank: lockwright_machines::rank::Rank::LOWEST,
    }
}

fn acquire(who: u128, wait: bool) -> Intent {
    Intent::Acquire { terms: terms(who, if who == 2 { TWO } else { ONE }), wait, prev: None }
}

fn release(who: u128) -> Intent {
    Intent::Release { terms: terms(who, ONE), used: 0 }
}

fn requests(store: &Redis, intent: Intent) -> Requests {
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    match layout.protocol(layout.key("x").unwrap()).step(Input::Begin(intent)) {
        Step::Ask(requests) => requests,
        other => panic!("{other:?}"),
    }
}

fn step(store: &Redis, op: Op, replies: &[Reply]) -> Step {
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    layout.protocol(layout.key("x").unwrap()).step(Input::Reply(op, replies))
}

fn answer(store: &Redis, intent: Intent) -> Answered {
    let requests = requests(store, intent);
    store.call(&requests, clock::now().after(Duration::from_secs(5)))
}

fn ask(store: &Redis, intent: Intent) -> Step {
    let op = intent.op();
    step(store, op, &replies(answer(store, intent)))
}

async fn ask_async(store: &Redis, intent: Intent) -> Step {
    let op = intent.op();
    let requests = requests(store, intent);
    let call = store.call_async(&requests, clock::now().after(Duration::from_secs(5)));
    let answered = runtime::within(call).await.unwrap();
    step(store, op, &replies(answered))
}

#[track_caller]
fn replies(answered: Answered) -> Vec<Reply> {
    match answered.outcome {
        Outcome::Replies(replies) => replies,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn unsent(answered: Answered) -> Error {
    match answered.outcome {
        Outcome::NotSent(error) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn unknown(answered: Answered) -> Error {
    match answered.outcome {
        Outcome::Unknown { error, void_after } => {
            let open = void_after.since(answered.sent);
            assert!(open > Duration::from_millis(500) && open < Duration::from_millis(550), "{open:?}");
            error
        }
        other => panic!("{other:?}"),
    }
}

fn is_granted(step: &Step) -> bool {
    matches!(step, Step::Done(Verdict::Granted(_)))
}

fn is_released(step: &Step) -> bool {
    matches!(step, Step::Done(Verdict::Released(ReleaseOutcome::Released)))
}

/// What a client would hear.
#[derive(Default)]
struct Ears {
    heard: Mutex<Vec<Heard>>,
    more: Condvar,
    listens: Mutex<Vec<Subscription>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Inbox(Inbox),
    Pushed(String, StoreEvent),
    Channel(String, String, Inbox),
    Restarted,
}

impl Ears {
    fn open(store: &Arc<Redis>, inbox: InboxId) -> Arc<Self> {
        let ears = Arc::new(Ears::default());
        ears.subscribe(store, Topic::Inbox(inbox));
        ears
    }

    /// Listens until the end, or until that is forgotten.
    fn subscribe(self: &Arc<Self>, store: &Arc<Redis>, topic: Topic<'_>) -> Inbox {
        let sink: Arc<dyn Sink> = self.clone();
        let mut subscription = store.clone().subscribe(topic, Arc::downgrade(&sink));
        if let Some(mut work) = subscription.take_work() {
            runtime::handle().unwrap().spawn(async move { work().await });
        }
        let state = subscription.state();
        locked(&self.listens).push(subscription);
        state
    }

    fn hears(self: &Arc<Self>, store: &Arc<Redis>, name: &str) -> Inbox {
        self.hears_as(store, name, false, false)
    }

    fn hears_as(self: &Arc<Self>, store: &Arc<Redis>, name: &str, own: bool, overheard: bool) -> Inbox {
        let channel = Channel { name: &name.into(), own, overheard };
        self.subscribe(store, Topic::Channel { channel, key: &format!("key-{name}").into() })
    }

    /// Listens no more in the way that was begun last.
    fn forget(&self) {
        let last = locked(&self.listens).pop();
        drop(last);
    }

    fn tell(&self, heard: Heard) {
        locked(&self.heard).push(heard);
        self.more.notify_all();
    }

    /// Waits until `count` things were heard, and forgets them.
    #[track_caller]
    fn take(&self, count: usize) -> Vec<Heard> {
        let heard = locked(&self.heard);
        let waited = self.more.wait_timeout_while(heard, Duration::from_secs(30), |heard| heard.len() < count);
        let (mut heard, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "only this was heard: {heard:?}");
        std::mem::take(&mut *heard)
    }

    #[track_caller]
    fn hear(&self, expected: &[Heard]) {
        assert_eq!(self.take(expected.len()), expected);
    }
}

impl Sink for Ears {
    fn inbox(&self, state: Inbox) {
        self.tell(Heard::Inbox(state));
    }

    fn pushed(&self, key: &str, event: &StoreEvent) {
        self.tell(Heard::Pushed(key.into(), event.clone()));
    }

    fn channel(&self, key: &str, channel: &str, state: Inbox) {
        self.tell(Heard::Channel(key.into(), channel.into(), state));
    }

    fn session(&self, _: Time) {}

    fn session_over(&self) {}

    fn unheard(&self) {}

    fn restarted(&self) {
        self.tell(Heard::Restarted);
    }
}

const LIVE: Heard = Heard::Inbox(Inbox::Live);
const CLOSED: Heard = Heard::Inbox(Inbox::Closed);

#[test]
fn a_lost_script_cache_costs_a_round_trip_and_nothing_else() {
    let server = Server::start("");
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..2 {
        server.run(&["SCRIPT", "FLUSH"]);
        assert!(is_granted(&ask(&store, acquire(1, false))));
        server.run(&["SCRIPT", "FLUSH"]);
        assert!(is_released(&runtime.block_on(ask_async(&store, release(1)))));
    }
    assert_eq!(locked(&store.pool).len(), 1);
}

#[test]
fn a_request_on_a_connection_that_breaks_has_an_unknown_outcome_and_the_next_a_new_connection() {
    let server = Server::start("");
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(is_granted(&ask(&store, acquire(1, false))));
    assert!(is_granted(&runtime.block_on(ask_async(&store, acquire(1, false)))));
    server.run(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(unknown(answer(&store, release(1))).kind(), Kind::Unavailable);
    assert!(is_released(&ask(&store, release(1))));
    // The runtime had no turn in which to see the end of its connection.
    let requests = requests(&store, acquire(1, false));
    let limit = clock::now().after(Duration::from_secs(5));
    assert_eq!(unknown(runtime.block_on(store.call_async(&requests, limit))).kind(), Kind::Unavailable);
    assert!(is_granted(&runtime.block_on(ask_async(&store, acquire(1, false)))));
}

#[test]
fn a_server_that_is_full_grants_nothing_and_takes_everything_back() {
    let server = Server::start("");
    let store = server.store();
    let full = |is| server.run(&["CONFIG", "SET", "maxmemory", if is { "1" } else { "0" }]);
    let said = |store: &Redis, intent: Intent| {
        let is_acquire = intent.op() == Op::Acquire;
        full(true);
        let step = ask(store, intent);
        full(false);
        let is_refused = matches!(&step, Step::Done(Verdict::Failed(error)) if error.to_string().contains("OOM"));
        assert_eq!(is_refused, is_acquire, "{step:?}");
        step
    };
    // Nobody waits, nor for the second time.
    assert!(is_granted(&ask(&store, acquire(1, false))));
    said(&store, Intent::Renew { terms: terms(1, ONE), ttl: Duration::from_secs(60) });
    said(&store, acquire(2, true));
    assert!(is_released(&said(&store, release(1))));
    assert!(is_granted(&ask(&store, acquire(1, false))));
    said(&store, Intent::Undo { terms: terms(1, ONE), prev: None });
    // Somebody waits, who is there.
    assert!(is_granted(&ask(&store, acquire(1, false))));
    let ears = Ears::open(&store, TWO);
    ears.hear(&[LIVE]);
    assert!(matches!(ask(&store, acquire(2, true)), Step::Wait(_)));
    assert!(is_released(&said(&store, release(1))));
    assert!(is_granted(&ask(&store, acquire(2, true))));
    assert!(is_released(&ask(&store, Intent::Release { terms: terms(2, TWO), used: 0 })));
    // Units of what several may hold.
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap().shared(Share::WRITE).unwrap();
    let key = layout.key("shared").unwrap();
    for intent in [
        Intent::Renew { terms: terms(1, ONE), ttl: Duration::from_secs(60) },
        Intent::Undo { terms: terms(3, ONE), prev: None },
        release(1),
    ] {
        let say = |intent: Intent| {
            let op = intent.op();
            let Step::Ask(requests) = layout.protocol(key.clone()).step(Input::Begin(intent)) else { panic!("asks") };
            let answers = replies(store.call(&requests, clock::now().after(Duration::from_secs(5))));
            layout.protocol(key.clone()).step(Input::Reply(op, &answers))
        };
        assert!(is_granted(&say(acquire(1, false))));
        full(true);
        let step = say(intent);
        full(false);
        assert!(!matches!(&step, Step::Done(Verdict::Failed(_))), "{step:?}");
    }
}

/// `who` asks for the lock from the inbox that listens.
fn queue(who: u128) -> Intent {
    Intent::Acquire { terms: terms(who, TWO), wait: true, prev: None }
}

/// `who` gives back a claim that it did not renew.
fn release_claim(server: &Server, who: u128) -> Intent {
    let record: String = redis::from_redis_value(server.run(&["HGET", "lw:{x}", "r"])).unwrap();
    assert_eq!(record[33..65], AttemptId(who).to_string(), "{who} has it: {record}");
    Intent::Release { terms: terms(who, TWO), used: record[1..17].parse().unwrap() }
}

fn granted_to(heard: &[Heard]) -> Vec<u128> {
    let attempt = |heard: &Heard| match heard {
        Heard::Pushed(_, StoreEvent::Granted { attempt, .. }) => Some(attempt.0),
        _ => None,
    };
    heard.iter().filter_map(attempt).collect()
}

#[test]
fn many_blocking_callers_share_a_connection_and_few_have_one_each() {
    let server = Server::start("");
    let store = opened(Uri::parse(&server.url(), ConnectOptions::default()).unwrap());
    server.run(&["CLIENT", "PAUSE", "1000"]);
    let callers: Vec<_> = (1..=40)
        .map(|who| {
            let store = store.clone();
            std::thread::spawn(move || ask(&store, acquire(who, false)))
        })
        .collect();
    let granted = callers.into_iter().map(|caller| caller.join().unwrap());
    let granted = granted.filter(is_granted).count();
    assert_eq!(granted, 1);
    let said = server.run(&["INFO", "clients"]);
    let redis::Value::BulkString(said) = said else { panic!("{said:?}") };
    let said = String::from_utf8(said).unwrap();
    // And whoever asks.
    assert!(said.contains("connected_clients:10\r\n"), "{said}");
}

#[test]
fn a_server_that_is_full_hands_claims_on() {
    let server = Server::start("");
    let store = server.store();
    let ears = Ears::open(&store, TWO);
    ears.hear(&[LIVE]);
    assert!(is_granted(&ask(&store, acquire(1, false))));
    for who in 2..=4 {
        assert!(matches!(ask(&store, queue(who)), Step::Wait(_)));
    }
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(is_released(&ask(&store, release(1))));
    assert!(is_released(&ask(&store, release_claim(&server, 2))));
    let Intent::Release { terms: prev, used } = release_claim(&server, 3) else { unreachable!() };
    let yielded = Intent::Acquire { terms: terms(5, TWO), wait: true, prev: Some(Previous { terms: prev, used }) };
    assert!(matches!(ask(&store, yielded), Step::Wait(_)));
    release_claim(&server, 4);
    // Three grants, and that a claim took the place of the first hold.
    assert_eq!(granted_to(&ears.take(4)), [2, 3, 4]);
}

#[test]
fn a_connection_that_died_while_idle_is_not_used() {
    let server = Server::start("");
    let store = server.store();
    assert!(is_granted(&ask(&store, acquire(1, false))));
    server.run(&["CLIENT", "KILL", "TYPE", "normal"]);
    for connection in locked(&store.pool).iter_mut() {
        connection.used = connection.used.before(Duration::from_secs(5));
    }
    assert!(is_released(&ask(&store, release(1))));
}

#[test]
fn a_server_that_is_gone_takes_no_request_and_one_that_is_back_is_found() {
    let server = Server::start("appendonly yes\nappendfsync always");
    let store = server.store();
    let ears = Ears::open(&store, ONE);
    ears.hear(&[LIVE]);
    assert!(is_granted(&ask(&store, acquire(1, false))));
    server.stop();
    ears.hear(&[CLOSED]);
    locked(&store.pool).clear();
    let error = unsent(answer(&store, release(1)));
    assert_eq!((error.kind(), error.store()), (Kind::Unavailable, Some(format!("{}/0", server.url()).as_str())));
    server.launch();
    ears.hear(&[Heard::Restarted, LIVE]);
    assert!(is_released(&ask(&store, release(1))));
}

#[test]
fn a_request_that_is_late_is_refused_until_the_clock_is_learnt_again() {
    let server = Server::start("");
    let store = server.store();
    let now = match ask(&store, acquire(1, false)) {
        Step::Done(Verdict::Granted(grant)) => StoreTime(i64::try_from(grant.tokens.unwrap().first()).unwrap()),
        other => panic!("{other:?}"),
    };
    store.learn(clock::now(), StoreTime(now.0 - 10_000_000));
    let at = match ask(&store, acquire(2, false)) {
        Step::Done(Verdict::Late { at }) => at,
        other => panic!("{other:?}"),
    };
    store.learn(clock::now(), at);
    assert!(matches!(ask(&store, acquire(2, false)), Step::Done(Verdict::Held { .. })));
}

#[test]
fn an_old_idea_of_the_clock_is_refreshed_on_the_way() {
    let server = Server::start("");
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(is_granted(&ask(&store, acquire(1, false))));
    for by_task in [false, true] {
        store.clock.learn(Time::ZERO, StoreTime(0));
        // The request itself still goes by the old idea; renewals have no time to be late for.
        let renew = Intent::Renew { terms: terms(1, ONE), ttl: Duration::from_secs(9) };
        let step = if by_task { runtime.block_on(ask_async(&store, renew)) } else { ask(&store, renew) };
        assert!(matches!(step, Step::Done(Verdict::Renewed)));
        assert!(matches!(ask(&store, acquire(2, false)), Step::Done(Verdict::Held { .. })), "{by_task}");
    }
}

#[test]
fn a_hand_off_reaches_the_inbox_and_garbage_does_not() {
    let server = Server::start("");
    let store = server.store();
    let (one, two) = (Ears::open(&store, ONE), Ears::open(&server.store(), TWO));
    one.hear(&[LIVE]);
    two.hear(&[LIVE]);
    assert!(is_granted(&ask(&store, acquire(1, true))));
    let Step::Wait(wait) = ask(&store, acquire(2, true)) else { panic!("queued") };
    assert_eq!(wait.position, 0);
    for garbage in ["", "granted", "\u{0}", "granted 1 2 3 4 5"] {
        server.run(&["PUBLISH", "lwi:0000000000000022", garbage]);
    }
    assert!(is_released(&ask(&store, release(1))));
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let key = layout.key("x").unwrap();
    let heard = two.take(1);
    let [Heard::Pushed(at, StoreEvent::Granted { attempt: AttemptId(2), first, last, .. })] = heard.as_slice() else {
        panic!("{heard:?}")
    };
    assert_eq!((at.as_str(), last - first), (&*key, 63));
    let limit = clock::now().after(Duration::from_secs(5));
    let broken = layout.break_hold(key.clone(), *first).conclude(|requests| Ok(replies(store.call(requests, limit))));
    assert!(broken.unwrap());
    two.hear(&[Heard::Pushed(key.to_string(), StoreEvent::Broken { attempt: AttemptId(2) })]);
    one.hear(&[]);
}

#[test]
fn an_inbox_that_is_cut_closes_and_comes_back() {
    let server = Server::start("");
    let store = server.store();
    let ears = Ears::open(&store, ONE);
    ears.hear(&[LIVE]);
    for _ in 0..3 {
        server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        ears.hear(&[CLOSED, LIVE]);
    }
}

#[test]
fn an_inbox_ends_with_its_client() {
    let server = Server::start("");
    let store = server.store();
    let ears = Ears::open(&store, ONE);
    ears.hear(&[LIVE]);
    drop(ears);
    let give_up = Instant::now() + Duration::from_secs(5);
    let channels = || server.run(&["PUBSUB", "CHANNELS", "*"]);
    while channels() != redis::Value::Array(vec![]) {
        assert!(Instant::now() < give_up, "{:?}", channels());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As in the docs of this store, but for `info`, without which a restart cannot be told from a broken connection.
const RIGHTS: &str = "~lw:{app:* &lwi:* +eval +evalsha +exists +hmget +hget +hgetall +hset +hdel +hexists +time +pexpireat +publish \
                      +pubsub|numsub +subscribe +ping +select +scan +client|setname";

#[test]
fn a_user_with_the_documented_rights_has_enough() {
    let server = Server::start(&format!("user app on >secret {RIGHTS}"));
    let store = store(&format!("redis://app:secret@127.0.0.1:{}/0?prefix=app:", server.port));
    let ears = Ears::open(&store, TWO);
    ears.hear(&[LIVE]);
    assert!(is_granted(&ask(&store, acquire(1, true))));
    assert!(matches!(ask(&store, acquire(2, true)), Step::Wait(_)));
    assert!(matches!(
        ask(&store, Intent::Renew { terms: terms(1, ONE), ttl: Duration::from_secs(40) }),
        Step::Done(Verdict::Renewed)
    ));
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let limit = clock::now().after(Duration::from_secs(5));
    let answer = |requests: &Requests| Ok(replies(store.call(requests, limit)));
    layout.inspect("x", layout.key("x").unwrap()).conclude(answer).unwrap();
    assert_eq!(layout.list().conclude(answer).unwrap(), ["x"]);
    assert!(is_released(&ask(&store, release(1))));
    let undo = Intent::Undo { terms: terms(2, TWO), prev: None };
    assert!(matches!(ask(&store, undo), Step::Done(Verdict::Undone)));
    let heard = ears.take(1);
    assert!(matches!(heard.as_slice(), [Heard::Pushed(..)]), "{heard:?}");
    server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    ears.hear(&[CLOSED, Heard::Restarted, LIVE]);
}

#[test]
fn a_user_who_may_not_subscribe_polls_and_still_releases() {
    let server = Server::start("user app on >secret ~lw:* resetchannels +@all");
    let store = store(&format!("redis://app:secret@127.0.0.1:{}", server.port));
    let ears = Ears::open(&store, ONE);
    ears.hear(&[Heard::Inbox(Inbox::Unavailable)]);
    let entitled = server.store();
    let other = Ears::open(&entitled, TWO);
    other.hear(&[LIVE]);
    assert!(is_granted(&ask(&store, acquire(1, false))));
    assert!(matches!(ask(&entitled, acquire(2, true)), Step::Wait(_)));
    assert!(matches!(ask(&entitled, queue(3)), Step::Wait(_)));
    // The grant is made though it cannot be published, and so is the next one, of a claim that is over.
    assert!(is_released(&ask(&store, release(1))));
    assert!(is_released(&ask(&store, release_claim(&server, 2))));
    release_claim(&server, 3);
    assert!(is_granted(&ask(&entitled, queue(3))));
}

#[test]
fn a_right_that_is_taken_or_given_later_is_noticed() {
    let server = Server::start("user app on >secret ~lw:* &lwi:* +@all -subscribe");
    let store = store(&format!("redis://app:secret@127.0.0.1:{}", server.port));
    let ears = Ears::open(&store, ONE);
    ears.hear(&[Heard::Inbox(Inbox::Unavailable)]);
    server.run(&["ACL", "SETUSER", "app", "+subscribe"]);
    ears.hear(&[LIVE]);
    server.run(&["ACL", "SETUSER", "app", "resetchannels"]);
    ears.hear(&[CLOSED, Heard::Inbox(Inbox::Unavailable)]);
}

#[test]
fn a_proxy_that_will_not_subscribe_is_polled_through() {
    // Says so; or ends every such connection.
    for (answer, closes) in [(b"-ERR command not supported\r\n".as_slice(), false), (b"", true)] {
        let ears = Ears::open(&greets_then(answer, closes), ONE);
        ears.hear(&[Heard::Inbox(Inbox::Unavailable)]);
    }
    let starting = greets_then(b"-LOADING Redis is loading the dataset in memory\r\n", true);
    let ears = Ears::open(&starting, ONE);
    std::thread::sleep(Duration::from_millis(500));
    assert!(locked(&ears.heard).is_empty(), "a server that starts will subscribe us yet");
}

/// What `ears` hear of the channel `name`, which tells of the lock `key-name`.
fn channel(name: &str, state: Inbox) -> Heard {
    Heard::Channel(format!("key-{name}"), name.into(), state)
}

fn listeners(server: &Server, name: &str) -> i64 {
    match server.run(&["PUBSUB", "NUMSUB", name]) {
        redis::Value::Array(parts) => redis::from_redis_value(parts[1].clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn channels_are_heard_on_the_inboxs_connection_as_often_as_they_are_wanted() {
    let server = Server::start("");
    let store = server.store();
    let ears = Ears::open(&store, ONE);
    ears.hear(&[LIVE]);
    assert_eq!(ears.hears(&store, "a"), Inbox::Closed);
    ears.hear(&[channel("a", Inbox::Live)]);
    assert_eq!(ears.hears(&store, "a"), Inbox::Live);
    assert_eq!(ears.hears_as(&store, "b", false, true), Inbox::Closed);
    ears.forget();
    assert_eq!(ears.hears_as(&store, "a", false, true), Inbox::Live);
    server.run(&["PUBLISH", "a", "0"]);
    ears.hear(&[Heard::Pushed("key-a".into(), StoreEvent::Changed { path: "a".into() })]);
    server.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let mut heard = ears.take(4);
    let position = |of: &Heard| heard.iter().position(|what| what == of).expect("it is told");
    assert!(position(&channel("a", Inbox::Closed)) < position(&channel("a", Inbox::Live)), "{heard:?}");
    assert!(position(&CLOSED) < position(&LIVE), "{heard:?}");
    heard.clear();
    for _ in 0..2 {
        ears.forget();
    }
    server.run(&["PUBLISH", "a", "0"]);
    ears.hear(&[Heard::Pushed("key-a".into(), StoreEvent::Changed { path: "a".into() })]);
    assert_eq!(listeners(&server, "a"), 1, "one is left who listens");
    ears.forget();
    let give_up = Instant::now() + Duration::from_secs(8);
    while listeners(&server, "a") > 0 {
        assert!(Instant::now() < give_up, "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ears.hears(&store, "a"), Inbox::Closed);
    ears.hear(&[channel("a", Inbox::Live)]);
}

#[test]
fn a_channel_that_is_refused_leaves_the_others_and_is_tried_again() {
    let server = Server::start("user app on >secret ~* resetchannels &lwi:* &a +@all");
    let store = store(&format!("redis://app:secret@127.0.0.1:{}", server.port));
    let ears = Ears::open(&store, ONE);
    ears.hear(&[LIVE]);
    for name in ["b", "a"] {
        assert_eq!(ears.hears(&store, name), Inbox::Closed);
    }
    ears.hear(&[channel("b", Inbox::Unavailable), channel("a", Inbox::Live)]);
    assert_eq!((ears.hears(&store, "b"), ears.hears(&store, "a")), (Inbox::Unavailable, Inbox::Live));
    server.run(&["ACL", "SETUSER", "app", "&b"]);
    ears.hear(&[channel("b", Inbox::Live)]);
}

#[test]
fn a_program_that_hangs_over_its_password_holds_nobody_else_up() {
    let server = Server::start("user app on >secret ~lw:* &lwi:* +@all");
    let vault = Arc::new(Mutex::new(()));
    let closed = locked(&vault);
    let key = vault.clone();
    let options = ConnectOptions {
        credentials: Some(Arc::new(move || {
            drop(locked(&key));
            Ok(Credentials { user: "app".into(), password: "secret".into() })
        })),
        ..ConnectOptions::default()
    };
    let hanging = opened(Uri::parse(&server.url(), options).unwrap());
    let ears = Ears::open(&hanging, ONE);
    // The background has one thread; this needs it.
    let free = Ears::open(&server.store(), TWO);
    free.hear(&[LIVE]);
    drop(closed);
    ears.hear(&[LIVE]);
}

#[test]
fn a_program_without_a_password_gets_its_own_cause() {
    let server = Server::start("");
    let options = ConnectOptions {
        credentials: Some(Arc::new(|| Err("the vault is closed".into()))),
        ..ConnectOptions::default()
    };
    let store = opened(Uri::parse(&server.url(), options).unwrap());
    both(&store, |answered| {
        let error = unsent(answered);
        assert!(error.kind() == Kind::Auth && error.to_string().contains("the vault is closed"), "{error}");
    });
}

#[test]
fn refused_credentials_are_an_auth_error_that_keeps_them_secret() {
    let server = Server::start("requirepass hunter2");
    for (url, kind) in [
        (format!("redis://127.0.0.1:{}", server.port), Kind::Auth),
        (format!("redis://:wrong-secret@127.0.0.1:{}", server.port), Kind::Auth),
        (format!("redis://nobody:wrong-secret@127.0.0.1:{}", server.port), Kind::Auth),
        (format!("redis://:hunter2@127.0.0.1:{}/99", server.port), Kind::InvalidConfig),
    ] {
        let store = store(&url);
        let error = unsent(answer(&store, acquire(1, false)));
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error:?} {store:?}").contains("secret"), "{error:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let requests = requests(&store, acquire(1, false));
        let limit = clock::now().after(Duration::from_secs(5));
        assert_eq!(unsent(runtime.block_on(store.call_async(&requests, limit))).kind(), kind);
    }
    let store = store(&format!("redis://:hunter2@127.0.0.1:{}", server.port));
    assert!(is_granted(&ask(&store, acquire(1, false))));
}

#[test]
fn databases_are_apart_and_a_socket_file_is_as_good_as_a_port() {
    let server = Server::start("");
    let seventh = store(&format!("{}/7", server.url()));
    let socket = store(&format!("{}?db=7", server.admin()));
    assert!(is_granted(&ask(&seventh, acquire(1, false))));
    assert!(is_granted(&ask(&server.store(), acquire(2, false))));
    assert!(matches!(ask(&socket, acquire(2, false)), Step::Done(Verdict::Held { .. })));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(is_released(&runtime.block_on(ask_async(&socket, release(1)))));
    let missing = store(&format!("redis+unix://{}", server.folder.join("missing").display()));
    let error = unsent(answer(&missing, acquire(1, false)));
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("no such socket"), "{error}");
}

#[test]
fn many_renewals_travel_together_and_each_has_its_answer() {
    let server = Server::start("");
    let store = server.store();
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let renew = |i: u32| {
        let key = layout.key(&i.to_string()).unwrap();
        let mut machine = layout.protocol(key.clone());
        let Step::Ask(renew) =
            machine.step(Input::Begin(Intent::Renew { terms: terms(1, ONE), ttl: Duration::from_secs(60) }))
        else {
            panic!("a renewal asks")
        };
        if i.is_multiple_of(7) {
            let Step::Ask(acquire) = machine.step(Input::Begin(acquire(1, false))) else { panic!("it asks") };
            replies(store.call(&acquire, clock::now().after(Duration::from_secs(5))));
        }
        renew[0].clone()
    };
    let renewals: Requests = (0..1_201).map(renew).collect();
    server.run(&["SET", "lw:{5}", "x"]);
    let commands = || match server.run(&["INFO", "commandstats"]) {
        redis::Value::BulkString(text) => {
            let text = String::from_utf8(text).unwrap();
            let calls = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                line.and_then(|line| line.split(',').next()?.parse::<u32>().ok()).unwrap_or_default()
            };
            calls("cmdstat_evalsha:calls=") + calls("cmdstat_eval:calls=")
        }
        other => panic!("{other:?}"),
    };
    let before = commands();
    let handle = runtime::handle().unwrap();
    let limit = clock::now().after(Duration::from_secs(20));
    let answers = replies(handle.block_on(store.clone().call_batch(renewals, limit)));
    assert_eq!(commands() - before, 4, "two of them, and again for the script");
    for (i, answer) in answers.iter().enumerate() {
        match (i, answer) {
            (5, Reply::Error { code, .. }) => assert_eq!(code, "WRONGTYPE"),
            (i, answer) => assert_eq!(*answer, Reply::Int(i64::from(i % 7 == 0)), "{i}"),
        }
    }
    assert_eq!(answers.len(), 1_201);
}

#[test]
fn every_runtime_has_a_connection_and_a_dead_one_none() {
    let server = Server::start("");
    let store = server.store();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        assert!(is_granted(&runtime.block_on(ask_async(&store, acquire(1, false)))));
        assert!(is_released(&runtime.block_on(ask_async(&store, release(1)))));
        drop(runtime);
        assert_eq!(locked(&store.lines).len(), 1);
    }
    // A caller of no runtime at all.
    let mut asked = std::pin::pin!(ask_async(&store, acquire(1, false)));
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let step = loop {
        match asked.as_mut().poll(&mut context) {
            std::task::Poll::Ready(step) => break step,
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert!(is_granted(&step));
}

#[test]
fn tasks_share_a_connection() {
    let server = Server::start("");
    let store = server.store();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            runtime.spawn(async move { is_granted(&ask_async(&store, acquire(1, false)).await) })
        })
        .collect();
    for task in tasks {
        assert!(runtime.block_on(task).unwrap());
    }
    let redis::Value::BulkString(clients) = server.run(&["CLIENT", "LIST"]) else { panic!("a list") };
    let ours = String::from_utf8(clients).unwrap().matches("name=lockwright").count();
    assert_eq!(ours, 1);
}

/// Runs openssl in `folder`; without the machine's configuration, whose extensions would contradict ours.
fn certificate(folder: &std::path::Path, name: &str, subject: &str, more: &[&str]) {
    std::fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name=name\n[name]\n").unwrap();
    let output = Command::new("openssl")
        .args(["req", "-x509", "-config", "openssl.cnf", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-noenc", "-days", "2", "-subj", subject, "-keyout", &format!("{name}.key")])
        .args(["-out", &format!("{name}.crt")])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("these tests make certificates with openssl; install it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tls_proves_both_sides_or_says_what_is_missing() {
    let folder = std::env::temp_dir().join(format!("lockwright-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let authority = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"];
    certificate(&folder, "ca", "/CN=Lockwright", &authority);
    certificate(&folder, "stranger", "/CN=Stranger", &authority);
    let signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE", "-addext"];
    certificate(
        &folder,
        "server",
        "/CN=localhost",
        &[&signed[..], &["subjectAltName=DNS:localhost,IP:127.0.0.1"]].concat(),
    );
    certificate(&folder, "client", "/CN=lockwright", &[&signed[..], &["extendedKeyUsage=clientAuth"]].concat());
    let file = |name: &str| folder.join(name).display().to_string();
    let server = Server::start(&format!(
        "tls-port PORT\ntls-ca-cert-file {}\ntls-cert-file {}\ntls-key-file {}\ntls-auth-clients yes",
        file("ca.crt"),
        file("server.crt"),
        file("server.key")
    ));
    let url = |host: &str, ca: &str| format!("rediss://{host}:{}/0?ca={}", server.port, file(ca));
    let ours = format!("&cert={}&key={}", file("client.crt"), file("client.key"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let store = store(&(url(host, "ca.crt") + &ours));
        let ears = Ears::open(&store, ONE);
        ears.hear(&[LIVE]);
        assert!(is_granted(&ask(&store, acquire(1, false))));
        assert!(is_released(&runtime.block_on(ask_async(&store, release(1)))));
    }
    let plain = Server::start("");
    for (url, kind, says) in [
        (url("127.0.0.1", "stranger.crt") + &ours, Kind::Auth, "ca"),
        (url("127.0.0.1", "ca.crt"), Kind::Auth, "cert and key"),
        (format!("redis://127.0.0.1:{}", server.port), Kind::Unavailable, "rediss://"),
        (format!("rediss://127.0.0.1:{}?ca={}", plain.port, file("ca.crt")), Kind::Unavailable, "redis://"),
    ] {
        let store = store(&url);
        let blocking = unsent(answer(&store, acquire(1, false)));
        let requests = requests(&store, acquire(1, false));
        let limit = clock::now().after(Duration::from_secs(5));
        let async_too = unsent(runtime.block_on(store.call_async(&requests, limit)));
        for error in [blocking, async_too] {
            assert!(error.kind() == kind && error.to_string().contains(says), "{url}: {error}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a Redis server says to whoever connects, and lacks the right to ask what it is.
const WELCOME: &[u8] =
    b"+OK\r\n-ERR no\r\n-ERR no\r\n*2\r\n$10\r\n1900000000\r\n$1\r\n0\r\n-NOPERM no\r\n-NOPERM no\r\n";

/// A server that does `act` with every connection.
fn hostile(act: impl Fn(TcpStream) + Send + Sync + 'static) -> Arc<Redis> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let act = Arc::new(act);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = act.clone();
            std::thread::spawn(move || act(stream));
        }
    });
    store(&format!("redis://127.0.0.1:{port}"))
}

/// Reads what the other side says, until it pauses.
fn swallow(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    stream.set_read_timeout(None).unwrap();
    let mut heard = stream.read(&mut bytes);
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    while heard.is_ok_and(|count| count > 0) {
        heard = stream.read(&mut bytes);
    }
}

/// Greets as a Redis server would, then answers the first request with `bytes`.
fn greets_then(bytes: &'static [u8], closes: bool) -> Arc<Redis> {
    hostile(move |mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        swallow(&mut stream);
        let _ = stream.write_all(bytes);
        if !closes {
            std::thread::sleep(Duration::from_secs(3));
        }
    })
}

/// The same answer for a blocking caller and for a task; and how long it took at most.
fn both(store: &Arc<Redis>, check: impl Fn(Answered)) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let began = Instant::now();
    check(answer(store, acquire(1, false)));
    let blocking = began.elapsed();
    let requests = requests(store, acquire(1, false));
    let limit = clock::now().after(Duration::from_secs(5));
    check(runtime.block_on(store.call_async(&requests, limit)));
    blocking.max(began.elapsed() - blocking)
}

#[test]
fn a_port_of_another_service_is_told_by_what_it_says() {
    let http = hostile(|mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    both(&http, |answered| {
        let error = unsent(answered);
        assert!(error.kind() == Kind::Protocol && error.to_string().contains("HTTP/1.1 400 Bad Request"), "{error}");
    });
    let noise = hostile(|mut stream| {
        let _ = stream.write_all(&[0xff; 10_000]);
        swallow(&mut stream);
    });
    both(&noise, |answered| assert_eq!(unsent(answered).kind(), Kind::Protocol));
    let echo = hostile(|mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let _ = stream.write_all(&bytes[..count]);
        }
    });
    both(&echo, |answered| assert_eq!(unsent(answered).kind(), Kind::Protocol));
    let closes = hostile(drop);
    both(&closes, |answered| assert_eq!(unsent(answered).kind(), Kind::Unavailable));
}

#[test]
fn a_silent_server_is_left_in_time() {
    let silent = hostile(|mut stream| {
        swallow(&mut stream);
        std::thread::sleep(Duration::from_secs(5));
    });
    let took = both(&silent, |answered| assert_eq!(unsent(answered).kind(), Kind::Unavailable));
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    let drips = hostile(|mut stream| {
        let _ = stream.write_all(b"+");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let took = both(&drips, |answered| assert_eq!(unsent(answered).kind(), Kind::Unavailable));
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    let silent_later = greets_then(b"", false);
    let took = both(&silent_later, |answered| assert_eq!(unknown(answered).kind(), Kind::Unavailable));
    assert!(took < Duration::from_millis(1_000), "{took:?}");
    assert!(locked(&silent_later.pool).is_empty());
    // Whoever gives up earlier is told earlier.
    let requests = requests(&silent_later, acquire(1, false));
    let began = Instant::now();
    unknown(silent_later.call(&requests, clock::now().after(Duration::from_millis(200))));
    assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
}

#[test]
fn a_socket_file_whose_server_takes_no_connections_is_left_in_time() {
    let folder = std::env::temp_dir().join(format!("lockwright-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let stream = || {
        let kind = rustix::net::SocketType::STREAM;
        let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
        rustix::net::socket_with(rustix::net::AddressFamily::UNIX, kind, flags, None).unwrap()
    };
    let server = stream();
    rustix::net::bind(&server, &address).unwrap();
    rustix::net::listen(&server, 0).unwrap();
    let mut queue = Vec::new();
    loop {
        let next = stream();
        if rustix::net::connect(&next, &address).is_err() {
            break;
        }
        queue.push(next);
    }
    let store = store(&format!("redis+unix://{}", path.display()));
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let took = both(&store, |answered| {
            let error = unsent(answered);
            assert!(error.kind() == Kind::Unavailable && error.to_string().contains("no answer in time"), "{error}");
        });
        tell.send(took).unwrap();
    });
    let took = hear.recv_timeout(Duration::from_secs(10)).expect("it returns");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_server_that_reads_a_little_at_a_time_is_left_in_time() {
    let store = hostile(|mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        stream.set_read_timeout(None).unwrap();
        while !matches!(stream.read(&mut [0; 1 << 16]), Ok(0) | Err(_)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let (mut connection, _) = Connection::dial(&store.config, clock::now().after(Duration::from_secs(2))).unwrap();
    let patience = Duration::from_millis(300);
    connection.out = vec![b'x'; 64 << 20];
    let began = Instant::now();
    connection.expect(clock::now().after(patience), patience);
    let unsent = connection.send().unwrap_err();
    assert!(!unsent.entirely && unsent.error.kind() == std::io::ErrorKind::TimedOut, "{unsent:?}");
    assert!(began.elapsed() < Duration::from_millis(1_000), "{:?}", began.elapsed());
}

#[test]
fn a_host_that_nobody_knows_is_told_as_that() {
    both(&store("redis://no-such-host.invalid"), |answered| {
        let error = unsent(answered);
        assert!(error.kind() == Kind::Unavailable && error.to_string().contains("correct its name"), "{error}");
    });
}

#[test]
fn half_a_reply_and_too_much_of_one_leave_the_outcome_unknown() {
    for (bytes, closes, kind) in [
        (b":17".as_slice(), true, Kind::Unavailable),
        (b":17", false, Kind::Unavailable),
        (b"*2\r\n:1\r\n", true, Kind::Unavailable),
        (b"$1073741824\r\nxxxx", false, Kind::Protocol),
        (b"*1073741824\r\n:1\r\n", false, Kind::Protocol),
        (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", false, Kind::Protocol),
        (b":12notanumber\r\n", false, Kind::Protocol),
        (b"SURPRISE\r\n", false, Kind::Protocol),
    ] {
        let store = greets_then(bytes, closes);
        both(&store, |answered| assert_eq!(unknown(answered).kind(), kind, "{}", String::from_utf8_lossy(bytes)));
        assert!(locked(&store.pool).is_empty());
    }
    let flood = hostile(|mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        swallow(&mut stream);
        let _ = stream.write_all(b"+");
        while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
    });
    let took = both(&flood, |answered| drop(unknown(answered)));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_reply_nobody_asked_for_ends_the_connection() {
    for more in [b":17\r\n:18".as_slice(), b":17\r\n:18\r\n", b":17\r\nSURPRISE"] {
        let store = greets_then(more, false);
        assert_eq!(replies(answer(&store, acquire(1, false))), [Reply::Int(17)]);
        assert!(locked(&store.pool).is_empty());
    }
    let eager = hostile(|mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(&[WELCOME, b":17\r\n"].concat());
        swallow(&mut stream);
    });
    assert_eq!(unsent(answer(&eager, acquire(1, false))).kind(), Kind::Protocol);
}

#[test]
fn a_reply_is_read_however_long_it_is_and_however_it_arrives() {
    let long = "x".repeat(100_000);
    let reply = format!("*2\r\n${}\r\n{long}\r\n:7\r\n", long.len());
    let store = hostile(move |mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        for size in [1000, 7, reply.len()] {
            swallow(&mut stream);
            reply.as_bytes().chunks(size).for_each(|part| drop(stream.write_all(part)));
        }
    });
    for _ in 0..3 {
        let list = Reply::List(vec![Reply::Text(long.clone()), Reply::Int(7)]);
        assert_eq!(replies(answer(&store, acquire(1, false))), [list]);
        assert_eq!(locked(&store.pool).len(), 1);
    }
}

/// It is made and moved for every request; to dial is none of it.
#[test]
fn a_request_of_a_task_takes_little_memory() {
    let store = store("redis://127.0.0.1:1");
    let requests = requests(&store, acquire(1, false));
    let bytes = size_of_val(&store.ask(&requests, clock::now(), false));
    assert!(bytes <= 2_200, "{bytes} bytes");
}

#[test]
fn a_half_open_inbox_is_noticed() {
    let silent = hostile(|mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        swallow(&mut stream);
        let _ = stream.write_all(b"*3\r\n$9\r\nsubscribe\r\n$20\r\nlwi:0000000000000011\r\n:1\r\n");
        while !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
    });
    let ears = Ears::open(&silent, ONE);
    ears.hear(&[LIVE]);
    ears.hear(&[CLOSED, Heard::Restarted, LIVE]);
}

/// A server whose scripts find an inbox as `found` says, and which answers a ping there or ends the connection.
fn finding(found: Arc<AtomicU32>, pongs: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Redis> {
    hostile(move |mut stream| {
        swallow(&mut stream);
        let _ = stream.write_all(WELCOME);
        stream.set_read_timeout(None).unwrap();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]);
            let answer = if text.contains("NUMSUB") {
                format!(":{}\r\n", found.load(Ordering::Relaxed))
            } else if !text.contains("PING") {
                "*3\r\n$9\r\nsubscribe\r\n$20\r\nlwi:0000000000000011\r\n:1\r\n".into()
            } else if pongs() {
                "*2\r\n$4\r\npong\r\n$0\r\n\r\n".into()
            } else {
                return;
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

#[test]
fn whoever_is_not_found_by_scripts_polls_until_it_is() {
    let found = Arc::new(AtomicU32::new(0));
    let proxy = finding(found.clone(), || true);
    let ears = Ears::open(&proxy, ONE);
    ears.hear(&[Heard::Inbox(Inbox::Unavailable)]);
    found.store(1, Ordering::Relaxed);
    ears.hear(&[LIVE]);
}

#[test]
fn an_inbox_that_had_ended_when_scripts_looked_for_it_is_opened_again() {
    let found = Arc::new(AtomicU32::new(0));
    let seen = found.clone();
    let server = finding(found, move || {
        seen.store(1, Ordering::Relaxed);
        false
    });
    Ears::open(&server, ONE).hear(&[Heard::Restarted, LIVE]);
}

#[test]
fn layouts_and_formats_are_chosen_by_name() {
    let store = store("redis://127.0.0.1:1");
    let chosen = |layout, format| {
        let layout = layout_of(store.layouts(), LayoutChoice { layout, format })?;
        Ok::<_, Error>((layout.name(), layout.format()))
    };
    assert_eq!(chosen(None, None).unwrap(), ("native", None));
    assert_eq!(chosen(Some("native"), None).unwrap(), ("native", None));
    assert_eq!(chosen(Some("string"), Some("redsync")).unwrap(), ("string", Some("redsync")));
    for (layout, format, kind, says) in [
        (
            Some("curator"),
            None,
            Kind::Unsupported,
            "there are: native, string, python_redis_lock, getset, symfony, redisson, spring",
        ),
        (Some("string"), Some("jedis"), Kind::Unsupported, "redis-py, redsync, node-redlock, predis, spring-template"),
        (Some("string"), None, Kind::InvalidConfig, "redis-py, redsync, node-redlock, predis, spring-template"),
        (Some("native"), Some("redsync"), Kind::InvalidConfig, "has no formats"),
        (None, Some("redsync"), Kind::InvalidConfig, "has no formats"),
    ] {
        let error = chosen(layout, format).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(says), "{error}");
    }
    assert!(std::ptr::eq(
        &raw const CALLS.undo,
        requests(&store, Intent::Undo { terms: terms(1, ONE), prev: None })[0].call
    ));
}
