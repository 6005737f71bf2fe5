//! Tasks that ask the same of a lock each, at the same time, for whom one command asks.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

/// What comes of asking each of these locks, by a task each, at once, each for somebody of its own.
async fn each(store: &Arc<Redis>, keys: &[Arc<str>], intent: fn(u128) -> Intent) -> Vec<Step> {
    let ask = |key: &Arc<str>| {
        let intent = intent(key.bytes().map(u128::from).sum());
        let op = intent.op();
        let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
        let mut protocol = layout.protocol(key.clone());
        let Step::Ask(requests) = protocol.step(Input::Begin(intent)) else { panic!("asks") };
        let store = store.clone();
        tokio::spawn(async move {
            let answered = store.call_async(&requests, clock::now().after(Duration::from_secs(5))).await;
            protocol.step(Input::Reply(op, &replies(answered)))
        })
    };
    let mut steps = Vec::new();
    for asked in keys.iter().map(ask).collect::<Vec<_>>() {
        steps.push(asked.await.unwrap());
    }
    steps
}

/// The same, one after the other.
async fn in_turn(store: &Arc<Redis>, keys: &[Arc<str>], intent: fn(u128) -> Intent) -> Vec<Step> {
    let mut steps = Vec::new();
    for key in keys.chunks(1) {
        steps.extend(each(store, key, intent).await);
    }
    steps
}

fn acquire_one(who: u128) -> Intent {
    acquire(who, false)
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The keys of locks, each of which was acquired and given back, so that they are there.
async fn known(store: &Arc<Redis>, names: &[&str]) -> Vec<Arc<str>> {
    let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
    let keys = names.iter().map(|name| layout.key(name).unwrap()).collect::<Vec<_>>();
    assert!(in_turn(store, &keys, acquire_one).await.iter().all(is_granted));
    assert!(in_turn(store, &keys, release).await.iter().all(is_released));
    keys
}

/// How many scripts the server ran since the last look, and how many it refused to.
fn scripts(server: &Server) -> (u64, u64) {
    let redis::Value::BulkString(told) = server.run(&["INFO", "commandstats"]) else { panic!("a text") };
    server.run(&["CONFIG", "RESETSTAT"]);
    let told = String::from_utf8(told).unwrap();
    let (mut ran, mut refused) = (0, 0);
    for line in told.lines().filter(|line| line.starts_with("cmdstat_eval")) {
        let figure = |name: &str| line.split([':', ',']).find_map(|part| part.strip_prefix(name)?.parse::<u64>().ok());
        ran += figure("calls=").unwrap();
        refused += figure("rejected_calls=").unwrap();
    }
    (ran, refused)
}

fn failed(step: &Step, words: &str) -> bool {
    matches!(step, Step::Done(Verdict::Failed(error)) if error.to_string().contains(words))
}

#[tokio::test]
async fn one_command_asks_for_all_and_a_failure_is_ones_own() {
    let server = Server::start("");
    let store = server.store();
    let keys = known(&store, &NAMES).await;
    server.run(&["SET", "lw:{c}", "somebody else's"]);
    scripts(&server);
    for _ in 0..3 {
        let acquired = each(&store, &keys, acquire_one).await;
        assert_eq!(scripts(&server), (1, 0));
        for (name, step) in NAMES.iter().zip(&acquired) {
            let is_foreign = *name == "c";
            assert_eq!((is_granted(step), failed(step, "layout")), (!is_foreign, is_foreign), "{name}: {step:?}");
        }
        let held = [&keys[..2], &keys[3..]].concat();
        let released = each(&store, &held, release).await;
        assert_eq!(scripts(&server), (1, 0));
        assert!(released.iter().all(is_released), "{released:?}");
        // Each is whose it was asked for.
        assert!(each(&store, &held, acquire_one).await.iter().all(is_granted));
        let released = in_turn(&store, &held, release).await;
        assert!(released.iter().all(is_released), "{released:?}");
        scripts(&server);
    }
}

#[tokio::test]
async fn what_does_not_lie_where_it_is_asked_for_is_asked_for_alone() {
    let server = Server::start("");
    let store = server.store();
    let keys = known(&store, &NAMES).await;
    // As through a proxy that has them elsewhere.
    server.run(&["DEL", "lw:{b}", "lw:{d}"]);
    scripts(&server);
    let acquired = each(&store, &keys, acquire_one).await;
    assert!(acquired.iter().all(is_granted), "{acquired:?}");
    assert_eq!(scripts(&server), (3, 0));
    server.run(&["DEL", "lw:{b}"]);
    let released = each(&store, &keys, release).await;
    let is_lost =
        |step: &Step| matches!(step, Step::Done(Verdict::Released(outcome)) if *outcome != ReleaseOutcome::Released);
    assert_eq!(released.iter().map(is_lost).collect::<Vec<_>>(), [false, true, false, false, false, false]);
    assert_eq!(scripts(&server), (2, 0));
}

#[tokio::test]
async fn whoever_may_not_touch_a_key_denies_it_to_nobody_else() {
    let server = Server::start("user app on >secret +@all ~lw:{a} ~lw:{b} ~lw:{c} ~lw:{d} ~lw:{e} ~lw:{f}");
    let store = store(&format!("redis://app:secret@127.0.0.1:{}", server.port));
    let keys = known(&store, &NAMES).await;
    server.run(&["ACL", "SETUSER", "app", "resetkeys", "~lw:{a}", "~lw:{b}", "~lw:{c}", "~lw:{d}", "~lw:{e}"]);
    scripts(&server);
    // Together once, and never again on this connection.
    for refused in [2, 1] {
        let acquired = each(&store, &keys, acquire_one).await;
        assert!(acquired[..5].iter().all(is_granted) && failed(&acquired[5], "NOPERM"), "{acquired:?}");
        assert_eq!(scripts(&server), (5, refused));
        let released = in_turn(&store, &keys[..5], release).await;
        assert!(released.iter().all(is_released), "{released:?}");
        scripts(&server);
    }
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_or_is_full_is_as_to_each_alone() {
    let server = Server::start("");
    let store = server.store();
    let keys = known(&store, &NAMES).await;
    for is_lost in [false, true, false] {
        if is_lost {
            server.run(&["SCRIPT", "FLUSH"]);
        }
        scripts(&server);
        let acquired = each(&store, &keys, acquire_one).await;
        assert!(acquired.iter().all(is_granted), "{acquired:?}");
        let (ran, _) = scripts(&server);
        assert_eq!(ran > 6, is_lost, "each had to ask alone, once: {ran}");
        assert!(each(&store, &keys, release).await.iter().all(is_released));
    }
    scripts(&server);
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = each(&store, &keys, acquire_one).await;
    assert!(refused.iter().all(|step| failed(step, "OOM")), "{refused:?}");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts(&server).0, 1, "it knows the script again");
    assert!(each(&store, &keys, acquire_one).await.iter().all(is_granted));
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let released = each(&store, &keys, release).await;
    assert!(released.iter().all(is_released), "{released:?}");
}

/// What a task does under its lock.
#[derive(Default)]
struct Counted {
    is_held: AtomicBool,
    count: AtomicU64,
    token: AtomicU64,
}

impl Counted {
    async fn raise(&self, token: u64) {
        assert!(!self.is_held.swap(true, Ordering::SeqCst), "two hold it");
        assert!(self.token.swap(token, Ordering::SeqCst) < token);
        let count = self.count.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.count.store(count + 1, Ordering::SeqCst);
        self.is_held.store(false, Ordering::SeqCst);
    }
}

const LOCKS: u64 = 24;
const ROUNDS: u64 = 60;
const CLIENTS: u64 = 2;

/// Raises what each lock protects, by a task of each client for each of them, and calls `meanwhile` twenty times.
async fn count(uri: &str, mut meanwhile: impl FnMut()) -> (Vec<Arc<Counted>>, Vec<crate::Client>) {
    let counted: Vec<Arc<Counted>> = (0..LOCKS).map(|_| Arc::default()).collect();
    let (mut clients, mut tasks) = (Vec::new(), Vec::new());
    let (raised, mut told) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..CLIENTS {
        let client = crate::connect(uri).await.unwrap();
        for (at, counted) in counted.iter().enumerate() {
            let lock = client.lock(&at.to_string()).build().unwrap();
            let (counted, raised) = (counted.clone(), raised.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = lock.acquire().await.unwrap();
                    counted.raise(guard.token().n).await;
                    raised.send(()).unwrap();
                    let _ = guard.release().await.unwrap();
                }
            }));
        }
        clients.push(client);
    }
    drop(raised);
    let mut all = 0;
    while told.recv().await.is_some() {
        all += 1;
        if all % (LOCKS * ROUNDS * CLIENTS / 20) == 0 {
            meanwhile();
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    (counted, clients)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lock_counts_right_while_connections_end_and_scripts_are_lost() {
    let server = Server::start("");
    let (mut ran, mut faults) = (0, 0);
    let (counted, clients) = count(&server.url(), || {
        ran += scripts(&server).0;
        faults += 1;
        let fault: &[&str] = if faults % 2 == 0 { &["SCRIPT", "FLUSH"] } else { &["CLIENT", "KILL", "TYPE", "normal"] };
        server.run(fault);
    })
    .await;
    ran += scripts(&server).0;
    for counted in counted {
        assert_eq!(counted.count.load(Ordering::SeqCst), ROUNDS * CLIENTS);
    }
    let requests: u64 = clients.iter().map(|client| client.metrics().requests).sum();
    assert!(ran < requests, "some were asked together: {ran} scripts for {requests} requests");
    assert!(faults >= 10, "{faults}");
}
