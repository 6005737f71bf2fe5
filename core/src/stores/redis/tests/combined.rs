//! Tasks that ask the same of a lock each, at the same time, for whom one command asks.

use super::*;

/// What comes of asking each of these locks, by a task each, at once, each for somebody of its own.
async fn each(store: &Arc<Redis>, names: &[&str], intent: fn(u128) -> Intent) -> Vec<Step> {
    let ask = |name: &&str| {
        let intent = intent(name.bytes().map(u128::from).sum());
        let op = intent.op();
        let layout = layout_of(store.layouts(), LayoutChoice::default()).unwrap();
        let mut protocol = layout.protocol(layout.key(name).unwrap());
        let Step::Ask(requests) = protocol.step(Input::Begin(intent)) else { panic!("asks") };
        let store = store.clone();
        tokio::spawn(async move {
            let answered = store.call_async(&requests, clock::now().after(Duration::from_secs(5))).await;
            protocol.step(Input::Reply(op, &replies(answered)))
        })
    };
    let mut steps = Vec::new();
    for asked in names.iter().map(ask).collect::<Vec<_>>() {
        steps.push(asked.await.unwrap());
    }
    steps
}

fn acquire_one(who: u128) -> Intent {
    acquire(who, false)
}

/// Acquires and releases a lock, which tells a new connection the time.
async fn warmed(store: &Arc<Redis>) {
    assert!(is_granted(&each(store, &["first"], acquire_one).await[0]));
    assert!(is_released(&each(store, &["first"], release).await[0]));
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

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn failed(step: &Step, words: &str) -> bool {
    matches!(step, Step::Done(Verdict::Failed(error)) if error.to_string().contains(words))
}

#[tokio::test]
async fn one_command_asks_for_all_and_a_failure_is_ones_own() {
    let server = Server::start("");
    let store = server.store();
    warmed(&store).await;
    server.run(&["SET", "lw:{c}", "somebody else's"]);
    server.run(&["HSET", "lw:{d}", "field", "somebody else's"]);
    scripts(&server);
    for _ in 0..3 {
        let acquired = each(&store, &NAMES, acquire_one).await;
        assert_eq!(scripts(&server), (1, 0));
        for (name, step) in NAMES.iter().zip(&acquired) {
            let is_foreign = matches!(*name, "c" | "d");
            assert_eq!((is_granted(step), failed(step, "layout")), (!is_foreign, is_foreign), "{name}: {step:?}");
        }
        let released = each(&store, &["a", "b", "e", "f"], release).await;
        assert_eq!(scripts(&server), (1, 0));
        assert!(released.iter().all(is_released), "{released:?}");
    }
}

#[tokio::test]
async fn whoever_may_not_touch_a_key_denies_it_to_nobody_else() {
    let server = Server::start("user app on >secret +@all ~lw:{a} ~lw:{b} ~lw:{c} ~lw:{d} ~lw:{e} ~lw:{first}");
    let store = store(&format!("redis://app:secret@127.0.0.1:{}", server.port));
    warmed(&store).await;
    scripts(&server);
    // Together once, and never again on this connection.
    for refused in [2, 1] {
        let acquired = each(&store, &NAMES, acquire_one).await;
        assert!(acquired[..5].iter().all(is_granted) && failed(&acquired[5], "NOPERM"), "{acquired:?}");
        assert_eq!(scripts(&server), (5, refused));
        for name in &NAMES[..5] {
            assert!(is_released(&each(&store, &[name], release).await[0]));
        }
        scripts(&server);
    }
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_or_is_full_is_as_to_each_alone() {
    let server = Server::start("");
    let store = server.store();
    warmed(&store).await;
    for is_lost in [false, true, false] {
        if is_lost {
            server.run(&["SCRIPT", "FLUSH"]);
        }
        scripts(&server);
        let acquired = each(&store, &NAMES, acquire_one).await;
        assert!(acquired.iter().all(is_granted), "{acquired:?}");
        let (ran, _) = scripts(&server);
        assert_eq!(ran > 6, is_lost, "each had to ask alone, once: {ran}");
        assert!(each(&store, &NAMES, release).await.iter().all(is_released));
    }
    scripts(&server);
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = each(&store, &NAMES, acquire_one).await;
    assert!(refused.iter().all(|step| failed(step, "OOM")), "{refused:?}");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts(&server).0, 1, "it knows the script again");
    assert!(each(&store, &NAMES, acquire_one).await.iter().all(is_granted));
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    let released = each(&store, &NAMES, release).await;
    assert!(released.iter().all(is_released), "{released:?}");
}
