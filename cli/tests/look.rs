//! `lockwright try`, `inspect`, `ls`, `break`, `ping` and `doctor`.

mod common;

use common::{Talking, TestStore, bare, said};
use serde_json::Value;

fn holder(store: &TestStore, name: &str) -> (Talking, u64) {
    let script = "echo $LOCKWRIGHT_TOKEN; read go";
    let holder = store.starts(["run", name, "--label", "nightly \"task\"", "--ttl", "20s", "--", "sh", "-c", script]);
    let token = holder.out.next().parse().unwrap();
    (holder, token)
}

fn json(store: &TestStore, arguments: &[&str]) -> Value {
    let said = store.says(arguments.iter().copied().chain(["--json"]));
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

#[test]
fn try_says_free_or_by_whom_it_is_taken() {
    let store = TestStore::new();
    let free = store.says(["try", "x"]);
    assert_eq!((free.code, free.err.as_str()), (Some(0), ""));
    assert!(free.out.starts_with("x: free\n"), "{}", free.out);
    assert_eq!(json(&store, &["try", "x"])["free"], true);
    // It was given back.
    assert_eq!(store.says(["try", "x"]).code, Some(0));

    let (mut holding, token) = holder(&store, "x");
    let taken = store.says(["try", "x"]);
    assert_eq!(taken.code, Some(75));
    assert!(taken.out.contains(&format!("token      {token}")), "{}", taken.out);
    let taken = json(&store, &["try", "x"]);
    assert_eq!((&taken["free"], &taken["holder"]["first_token"]), (&Value::from(false), &Value::from(token)));
    holding.write("go");
    assert_eq!(holding.code(), Some(0));
}

#[test]
fn inspect_shows_the_holder_card() {
    let store = TestStore::new();
    assert!(store.says(["inspect", "x"]).out.starts_with("x: free\n"));
    let (holding, token) = holder(&store, "x");
    let shown = store.says(["inspect", "x"]);
    assert_eq!(shown.code, Some(0));
    for part in ["x: held", "(cli) \"nightly \"task\"\"", &format!("pid {}", holding.child.id()), "waiters    0"] {
        assert!(shown.out.contains(part), "{part} in {}", shown.out);
    }
    let seen = json(&store, &["inspect", "x"]);
    let held = &seen["holder"];
    assert_eq!(
        (seen["name"].as_str(), seen["waiters"].as_u64(), seen["free"].as_bool()),
        (Some("x"), Some(0), Some(false))
    );
    assert_eq!((held["label"].as_str(), held["language"].as_str()), (Some("nightly \"task\""), Some("cli")));
    assert_eq!((held["pid"].as_u64(), held["first_token"].as_u64()), (Some(holding.child.id().into()), Some(token)));
    assert!((1..=20_000).contains(&held["remaining_ms"].as_u64().unwrap()));
}

#[test]
fn ls_lists_what_is_held_or_all() {
    let store = TestStore::new();
    assert_eq!(json(&store, &["ls"]), Value::Array(vec![]));
    store.says(["try", "b-free"]);
    let (_a, token) = holder(&store, "a {held}");
    let (_c, _) = holder(&store, "c-held");
    let names = |seen: &Value| seen.as_array().unwrap().iter().map(|lock| lock["name"].to_string()).collect::<Vec<_>>();
    assert_eq!(names(&json(&store, &["ls"])), ["\"a {held}\"", "\"c-held\""]);
    let all = json(&store, &["ls", "--all"]);
    if names(&all).contains(&"\"b-free\"".to_owned()) {
        let shown = store.says(["ls", "--all"]).out;
        let free: Vec<_> = shown.lines().filter(|line| line.starts_with("b-free ")).collect();
        assert!(matches!(free[..], [line] if line.ends_with("  0        free")), "{shown}");
    }
    assert!(names(&all).contains(&"\"a {held}\"".to_owned()));
    let table = store.says(["ls"]);
    let lines: Vec<_> = table.out.lines().collect();
    assert_eq!((table.code, lines.len()), (Some(0), 3), "{}", table.out);
    assert!(lines[0].starts_with("LOCK ") && lines[1].starts_with(&format!("a {{held}}  {token}  ")), "{}", table.out);
}

#[test]
fn break_wants_the_token_and_says_what_it_did() {
    let store = TestStore::new();
    let (holding, token) = holder(&store, "x");

    let asked = store.says(["break", "x"]);
    assert_eq!(asked.code, Some(64));
    assert!(
        asked.out.contains("x: held") && asked.err.contains(&format!("lockwright break --token {token} -- x\n")),
        "{asked:?}"
    );

    let wrong = store.says(["break", "x", "--token", &(token + 1000).to_string()]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains(" did not break lock \"x\"") && wrong.err.contains("not_owned"), "{}", wrong.err);
    assert_eq!(store.says(["try", "x"]).code, Some(75));

    let broken = store.says(["break", "x", "--token", &token.to_string()]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    assert!(broken.out.contains("broken"), "{}", broken.out);
    let audit: Vec<_> = broken.err.lines().collect();
    assert!(
        matches!(audit[..], [line] if line.starts_with("lockwright: audit: 20") && line.contains(" broke lock \"x\""))
    );
    assert!(audit[0].contains("nightly") && audit[0].contains(&format!("pid {}", holding.child.id())), "{audit:?}");
    assert_eq!(store.says(["try", "x"]).code, Some(0));

    let free = store.says(["break", "x", "--token", "1"]);
    assert_eq!(free.code, Some(1));
}

#[test]
fn prefixes_are_worlds_of_their_own() {
    let store = TestStore::new();
    let (_holding, _) = holder(&store, "x");
    if store.url.starts_with("sqlite:") {
        assert_eq!(store.says(["try", "x", "--prefix", "other:"]).code, Some(0));
        assert_eq!(json(&store, &["ls", "--prefix", "other:"]), Value::Array(vec![]));
    }
    assert_eq!(store.says(["try", "x"]).code, Some(75));
}

#[test]
fn what_happens_is_told_to_whoever_asks_for_it() {
    let store = TestStore::new();
    let quiet = store.says(["run", "told", "--", "true"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""));
    let told = store.says(["--log", "lockwright::grant=debug", "run", "told", "--", "true"]);
    assert_eq!((told.code, told.err.lines().count()), (Some(0), 1), "{}", told.err);
    assert!(told.err.contains("lockwright::grant") && told.err.contains("lock=\"told\""), "{}", told.err);
    let by_environment = said(store.lockwright(["run", "told", "--", "true"]).env("LOCKWRIGHT_LOG", "debug"));
    assert!(by_environment.err.contains("lockwright::release"), "{}", by_environment.err);
}

#[test]
fn locks_of_other_libraries_are_told_by_their_looks() {
    let Ok(redis) = std::env::var("LOCKWRIGHT_TEST_REDIS") else { return };
    let mut store = TestStore::new();
    store.url.clone_from(&redis);
    let key = format!("{}:x", store.prefix);
    let owner = "9b2e1c3a-0000-4000-8000-0123456789ab:7";
    let tell = |words: &[&str]| {
        let port = redis.rsplit(':').next().unwrap_or_default();
        let told = std::process::Command::new("redis-cli").args(["-p", port]).args(words).output().unwrap();
        assert!(told.status.success(), "{told:?}");
    };
    tell(&["hset", &key, owner, "1"]);
    tell(&["pexpire", &key, "60000"]);
    tell(&["set", &format!("{key}-cache"), "{}"]);
    let seen = store.says(["inspect", "x"]);
    assert!(seen.out.starts_with("x: free\n"), "{}", seen.out);
    assert!(seen.out.contains("a hash, as Redisson's locks are, lies under the name"), "{}", seen.out);
    assert_eq!(json(&store, &["inspect", "x"])["others"][0]["looks_like"], "a hash, as Redisson's locks are");
    let listed = json(&store, &["ls", "--foreign"]);
    let keys: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(keys, [&*key]);
    assert!(store.says(["ls", "--foreign"]).out.contains("LOOKS LIKE"));
    tell(&["del", &key, &format!("{key}-cache")]);
}

#[test]
fn several_hold_what_is_shared_and_each_is_shown_and_broken_by_its_token() {
    let store = TestStore::new();
    let script = "echo $LOCKWRIGHT_TOKEN; read go";
    let starts = |what: [&str; 3]| {
        let holder = store.starts(["run", "x", what[0], what[1], what[2], "--", "sh", "-c", script]);
        let token: u64 = holder.out.next().parse().unwrap();
        (holder, token)
    };
    let (_one, first) = starts(["--permits=3", "--take=2", "--label=two"]);
    let (_other, second) = starts(["--permits=3", "--try", "--label=one"]);
    let taken = store.says(["run", "x", "--permits=3", "--try", "--", "true"]);
    assert_eq!(taken.code, Some(75), "{taken:?}");
    let seen = json(&store, &["inspect", "x"]);
    let shared = &seen["shared"];
    assert_eq!((shared["primitive"].as_str(), shared["permits"].as_u64()), (Some("semaphore"), Some(3)));
    let holds: Vec<_> = shared["holders"].as_array().unwrap().iter().map(|part| &part["holds"]).collect();
    assert_eq!(holds, ["2", "1"]);
    let table = store.says(["ls"]).out;
    assert!(table.contains("\"two\"") && table.contains("\"one\""), "{table}");
    let asked = store.says(["break", "x"]);
    assert!(asked.err.contains(&format!("{first}, {second}")), "{}", asked.err);
    let broken = store.says(["break", "x", "--token", &second.to_string()]);
    assert!(broken.code == Some(0) && broken.err.contains("\"one\""), "{broken:?}");
    for command in [&["run", "x", "--", "true"][..], &["try", "x"]] {
        let foreign = store.says(command.iter().copied());
        assert_eq!(foreign.code, Some(76), "{foreign:?}");
        assert!(foreign.err.contains("this name is a semaphore; use --permits 3"), "{}", foreign.err);
    }
    assert_eq!(store.says(["try", "x", "--permits", "3"]).code, Some(0));
}

#[test]
fn a_name_that_is_something_else_says_which_option_to_give() {
    let store = TestStore::new();
    let (_locked, _) = holder(&store, "plain");
    let plain = store.says(["try", "plain", "--read"]);
    assert!(plain.err.contains("this name is a plain lock; leave out --read"), "{plain:?}");
    let reader = store.starts(["run", "catalog", "--read", "--", "sh", "-c", "echo go; read go"]);
    reader.out.next();
    let catalog = store.says(["run", "catalog", "--", "true"]);
    assert!(
        catalog.code == Some(76) && catalog.err.contains("a read/write lock; use --read or --write"),
        "{catalog:?}"
    );
    assert_eq!(store.says(["try", "catalog", "--write"]).code, Some(75));
    assert_eq!(store.says(["try", "catalog", "--read"]).code, Some(0));
}

#[test]
fn how_to_break_a_lock_is_said_by_the_line_to_type() {
    let store = TestStore::new();
    let names = ["--prefix", "an app's:"];
    let script = "echo $LOCKWRIGHT_TOKEN; read go";
    let holder = store.starts(names.into_iter().chain(["run", "the night", "--", "sh", "-c", script]));
    let token = holder.out.next();
    let asked = store.says(names.into_iter().chain(["break", "the night"]));
    let line = asked.err.trim_end().rsplit_once("then: ").unwrap().1.to_owned();
    assert_eq!(line, format!("lockwright '--prefix=an app'\\''s:' break --token {token} -- 'the night'"));
    let mut shell = std::process::Command::new("sh");
    let typed = line.replacen("lockwright", env!("CARGO_BIN_EXE_lockwright"), 1);
    let broken = said(shell.args(["-c", &typed]).env("LOCKWRIGHT_URL", &store.url));
    assert_eq!(broken.code, Some(0), "{broken:?}");

    let Ok(redis) = std::env::var("LOCKWRIGHT_TEST_REDIS") else { return };
    let key = format!("{}:orders 42", store.prefix);
    let server = redis.split('?').next().unwrap_or_default();
    let tell = |words: &[&str]| said(std::process::Command::new("redis-cli").args(["-u", server]).args(words)).out;
    assert_eq!(tell(&["set", &key, "0123456789abcdef0123456789abcdef", "px", "60000"]), "OK\n");
    let theirs = ["--layout", "string", "--format", "redis-py", "--url", &redis];
    let asked = said(bare().args(theirs).args(["break", &key]));
    assert!(asked.err.contains("held by redis-py (not Lockwright)"), "{}", asked.err);
    let line = asked.err.trim_end().rsplit_once("then: ").unwrap().1;
    assert!(line.starts_with("redis-cli -u redis://") && line.ends_with(&format!("DEL '{key}'")), "{line}");
    assert_eq!(said(std::process::Command::new("sh").args(["-c", line])).out, "1\n");
}

#[test]
fn readers_run_together_and_a_writer_alone() {
    let store = TestStore::new();
    let script = "echo go; read go";
    let mut reader = store.starts(["run", "x", "--read", "--", "sh", "-c", script]);
    reader.out.next();
    assert_eq!(store.says(["run", "x", "--read", "--try", "--", "true"]).code, Some(0));
    assert_eq!(store.says(["run", "x", "--write", "--try", "--", "true"]).code, Some(75));
    reader.write("go");
    assert_eq!(reader.code(), Some(0));
    assert_eq!(store.says(["run", "x", "--write", "--try", "--", "true"]).code, Some(0));
}

/// The address by which a program has the names of the commands: there is no command that makes a latch or a barrier.
fn own_url(store: &TestStore) -> String {
    let mut url = store.url.clone();
    if !url.starts_with("sqlite:") {
        url.push_str(&format!("{}prefix={}:", if url.contains('?') { '&' } else { '?' }, store.prefix));
    }
    url
}

#[test]
fn a_latch_is_shown_as_one_with_its_count() {
    let store = TestStore::new();
    let latch = lockwright::blocking::connect(&own_url(&store)).unwrap().latch("x", 2).build().unwrap();
    assert_eq!(latch.count_down().unwrap(), 1);
    let shown = store.says(["inspect", "x"]).out;
    assert!(shown.starts_with("x: counting\n  kind       latch\n  count      1\n  waiters    0\n"), "{shown}");
    let seen = json(&store, &["inspect", "x"]);
    assert_eq!(
        (seen["primitive"].as_str(), seen["latch"]["count"].as_u64(), seen["free"].as_bool()),
        (Some("latch"), Some(1), Some(false))
    );
    assert!(store.says(["ls"]).out.contains("latch, 1 still to come"));
    let asked = store.says(["break", "x"]);
    assert!(asked.code == Some(64) && asked.err.contains("a latch is held by nobody"), "{asked:?}");
    latch.count_down().unwrap();
    assert!(store.says(["inspect", "x"]).out.starts_with("x: open\n"));
    assert!(store.says(["ls", "--all"]).out.contains("latch, open"));
    assert_eq!(json(&store, &["ls", "--all"])[0]["latch"]["count"], 0);
    assert_eq!(json(&store, &["ls"]), Value::Array(vec![]));
}

#[test]
fn a_barrier_is_shown_as_one() {
    let store = TestStore::new();
    let barrier = lockwright::blocking::connect(&own_url(&store)).unwrap().barrier("x", 1).build().unwrap();
    barrier.wait().unwrap();
    let shown = store.says(["inspect", "x"]).out;
    assert!(shown.starts_with("x: shut\n  kind       barrier\n  waiters    0\n"), "{shown}");
    assert_eq!(json(&store, &["inspect", "x"])["primitive"], "barrier");
    assert!(store.says(["ls", "--all"]).out.contains("barrier"));
    let asked = store.says(["break", "x"]);
    assert!(asked.code == Some(64) && asked.err.contains("a barrier is held by nobody"), "{asked:?}");
}

#[test]
fn ping_says_whether_locks_can_be_had() {
    let store = TestStore::new();
    let ready = store.says(["ping"]);
    assert_eq!((ready.code, ready.err.as_str()), (Some(0), ""), "{ready:?}");
    assert!(ready.out.contains(": ready\n  took       ") && ready.out.contains(" ms"), "{}", ready.out);
    let seen = json(&store, &["ping"]);
    assert!(seen["took_ms"].as_f64().unwrap() > 0.0, "{seen}");
    assert_eq!(seen["may_evict"], false);
    let named = said(bare().args(["ping", &store.url]));
    assert_eq!((named.code, named.err.as_str()), (Some(0), ""), "{named:?}");
    let twice = store.says(["--url", "sqlite://", "ping", &store.url]);
    assert!(twice.code == Some(64) && twice.err.contains("given twice"), "{twice:?}");

    let nobody = said(bare().args(["ping", "redis://127.0.0.1:1", "--json"]));
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(69), ""), "{nobody:?}");
    assert!(
        nobody.err.starts_with("lockwright: unavailable: ") && nobody.err.contains("nothing listens"),
        "{nobody:?}"
    );
    let Ok(redis) = std::env::var("LOCKWRIGHT_TEST_REDIS") else { return };
    assert_eq!(json(&store, &["ping", &redis])["eviction"], "noeviction");
    let stranger = redis.replacen("redis://", "redis://nobody:wrong@", 1);
    let refused = said(bare().args(["ping", &stranger]));
    assert!(refused.code == Some(77) && !refused.err.contains("wrong@"), "{refused:?}");
}

#[test]
fn doctor_says_whether_the_store_is_fit_to_keep_locks_in() {
    let folder = std::env::temp_dir().join(format!("lockwright-doctor-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("locks.db");
    let url = format!("sqlite://{}", file.display());
    let fit = said(bare().args(["doctor", &url]));
    assert_eq!((fit.code, fit.err.as_str()), (Some(0), ""), "{fit:?}");
    let found = fit.out.lines().skip(1).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
    assert!(found.eq(["serves", "file", "room", "clock", "processes"].map(|check| vec!["ok", check])), "{fit:?}");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let open = said(bare().args(["doctor", &url]));
    assert!(open.code == Some(1) && open.out.contains("warning  file") && open.out.contains("forge"), "{open:?}");
    let seen: Value = serde_json::from_str(&said(bare().args(["doctor", &url, "--json"])).out).unwrap();
    assert_eq!((&seen["worst"], &seen["findings"][1]["severity"]), (&"warning".into(), &"warning".into()));
    std::fs::remove_dir_all(&folder).unwrap();

    let nobody = said(bare().args(["doctor", "redis://127.0.0.1:1"]));
    assert!(nobody.code == Some(69) && nobody.err.contains("nothing listens"), "{nobody:?}");
    let not_there = said(bare().args(["doctor", "redis://127.0.0.1:1", "--url", "sqlite://"]));
    assert!(not_there.code == Some(64) && not_there.err.contains("given twice"), "{not_there:?}");
}

#[test]
fn doctor_finds_queues_whose_waiters_are_all_gone() {
    let Ok(redis) = std::env::var("LOCKWRIGHT_TEST_REDIS") else { return };
    let prefix = format!("doctor-queue-{}:", std::process::id());
    let queues = || {
        let seen = said(bare().args(["doctor", &redis, "--prefix", &prefix, "--json"]));
        let seen: Value = serde_json::from_str(&seen.out).unwrap();
        seen["findings"].as_array().unwrap().iter().find(|one| one["check"] == "queues").cloned()
    };
    let run = |what: &[&str]| {
        let begins = ["--url", &redis, "--prefix", &prefix, "run", "x", "--fair", "--ttl", "2s", "--"];
        Talking::to(bare().args(begins).args(what))
    };
    let mut holder = run(&["sh", "-c", "echo held; sleep 60"]);
    assert_eq!(holder.out.next(), "held");
    let mut waiter = run(&["true"]);
    let waits = || said(bare().args(["--url", &redis, "--prefix", &prefix, "inspect", "x", "--json"])).out;
    while !waits().contains("\"waiters\":1") {}
    assert_eq!(queues(), None, "somebody holds it");
    for gone in [&mut waiter, &mut holder] {
        gone.child.kill().unwrap();
        gone.child.wait().unwrap();
    }
    let found = loop {
        if let Some(found) = queues() {
            break found;
        }
    };
    assert!(found["severity"] == "note" && found["found"].as_str().unwrap().contains("\"x\""), "{found}");
    assert_eq!(said(bare().args(["--url", &redis, "--prefix", &prefix, "try", "x"])).code, Some(0));
    assert_eq!(queues(), None);
}

#[test]
fn doctor_finds_locks_of_two_layouts_under_one_name() {
    let Ok(redis) = std::env::var("LOCKWRIGHT_TEST_REDIS") else { return };
    let prefix = format!("doctor-{}:", std::process::id());
    let examine = || {
        let said = said(bare().args(["doctor", &redis, "--prefix", &prefix, "--json"]));
        let seen: Value = serde_json::from_str(&said.out).unwrap();
        let findings = seen["findings"].as_array().unwrap().clone();
        (said.code, findings.into_iter().find(|finding| finding["check"] == "layouts"))
    };
    let of_layout = |layout| {
        let client = lockwright::blocking::connect(&format!("{redis}?prefix={prefix}&layout={layout}")).unwrap();
        client.lock("x").acquire().unwrap()
    };
    let native = of_layout("native");
    assert_eq!(examine(), (Some(0), None));
    let redisson = of_layout("redisson");
    let (code, both) = examine();
    let both = both.unwrap();
    assert!(both["severity"] == "warning" && both["found"].as_str().unwrap().contains("\"x\""), "{both}");
    assert_eq!(code, Some(1));
    let _ = native.release().unwrap();
    let _ = redisson.release().unwrap();
}
