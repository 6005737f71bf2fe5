//! `lockwright run`.

mod common;

use std::time::{Duration, Instant};

use common::{Talking, TestStore, bare, end, runs, said, shows_life};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn the_commands_exit_code_is_ours() {
    let place = TestStore::new();
    let code = |command: &[&str]| place.says(["run", "x", "--"].iter().chain(command).copied()).code;
    assert_eq!(code(&["true"]), Some(0));
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    // A signal that has no name.
    assert_eq!(code(&["sh", "-c", "kill -40 $$"]), Some(128 + 40));
    assert_eq!(code(&["no-such-command-anywhere"]), Some(127));
    assert_eq!(code(&["/"]), Some(126));
    assert_eq!(place.says(["try", "x"]).code, Some(0));
}

#[test]
fn the_command_knows_its_lock_and_token() {
    let place = TestStore::new();
    let ask = || place.says(["run", "orders:42", "--", "sh", "-c", "echo $LOCKWRIGHT_LOCK $LOCKWRIGHT_TOKEN"]).out;
    let token = |said: String| said.trim().strip_prefix("orders:42 ").unwrap().parse::<u64>().unwrap();
    let first = token(ask());
    assert!(token(ask()) > first);
}

#[test]
fn the_commands_input_and_output_are_its_own() {
    let place = TestStore::new();
    let mut run = place.starts(["run", "x", "--", "sh", "-c", "read a; echo got $a; echo aside >&2"]);
    run.write("something");
    assert_eq!((run.out.next(), run.err.next()), ("got something".to_owned(), "aside".to_owned()));
    assert_eq!(run.code(), Some(0));
}

/// A run that holds `name` until it reads a line.
fn holder(place: &TestStore, options: &[&str]) -> Talking {
    let holder =
        place.starts(["run", "x"].iter().chain(options).copied().chain(["--", "sh", "-c", "echo held $$; read go"]));
    assert!(holder.out.next().starts_with("held "));
    holder
}

#[test]
fn a_taken_lock_is_waited_for_as_long_as_wanted() {
    let place = TestStore::new();
    let mut first = holder(&place, &["--label", "first"]);
    for options in [&["--try"][..], &["--timeout", "500ms"], &["--timeout", "0s"]] {
        let refused = place.says(["run", "x"].iter().chain(options).copied().chain(["--", "echo", "never"]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(75), ""), "{options:?}");
        assert!(options != ["--try"] || refused.err.contains("(cli) \"first\" has held it for"), "{}", refused.err);
        assert!(
            refused.err.starts_with("lockwright: timeout: ") && refused.err.lines().count() == 1,
            "{}",
            refused.err
        );
    }
    let mut second = place.starts(["run", "x", "--fair", "--", "echo", "second"]);
    first.write("go");
    assert_eq!(first.code(), Some(0));
    assert_eq!((second.out.next(), second.code()), ("second".to_owned(), Some(0)));
}

#[test]
fn a_taken_lock_is_passed_over_in_silence_where_that_is_wanted() {
    let place = TestStore::new();
    let _first = holder(&place, &[]);
    for (options, code) in [(&["--quiet"][..], 75), (&["--quiet", "--if-taken", "0"], 0), (&["-q", "--if-taken=7"], 7)]
    {
        for wait in [&["--try"][..], &["--timeout", "500ms"]] {
            let words = ["run", "x"].iter().chain(options).chain(wait).copied();
            let passed = place.says(words.chain(["--", "echo", "never"]));
            assert_eq!((passed.code, &*passed.out, &*passed.err), (Some(code), "", ""), "{options:?} {wait:?}");
        }
    }
    // What is no lock that is taken is told all the same.
    let refused = place.says(["run", "x", "--quiet", "--if-taken", "0", "--read", "--try", "--", "true"]);
    assert!(refused.code == Some(76) && !refused.err.is_empty(), "{refused:?}");
    let free = place.says(["run", "free", "--quiet", "--if-taken", "0", "--", "sh", "-c", "exit 3"]);
    assert_eq!(free.code, Some(3));
}

#[test]
fn who_waits_for_long_is_told_for_whom() {
    let place = TestStore::new();
    let mut first = holder(&place, &["--label", "alice"]);
    let mut second = place.starts(["run", "x", "--", "true"]);
    let told = second.err.next();
    let pid = first.child.id();
    assert!(
        told.starts_with("lockwright: waiting for \"x\": ")
            && told.contains(&format!("pid {pid} (cli) \"alice\" has held it for")),
        "{told}"
    );
    first.write("go");
    assert_eq!(second.code(), Some(0));
    assert_eq!(second.err.rest(), [""; 0]);
}

#[test]
fn the_command_finds_the_address_without_its_password() {
    let Ok(server) = std::env::var("LOCKWRIGHT_TEST_REDIS") else {
        return eprintln!("skipped: LOCKWRIGHT_TEST_REDIS names no server");
    };
    let place = TestStore::new();
    let address = server.trim_start_matches("redis://").split('?').next().unwrap();
    // The default user has no password here, and any will do.
    let secret = format!("redis://default:hunter2@{address}?prefix={}:", place.prefix);
    let script = "echo ${LOCKWRIGHT_URL-none}";
    let finds = |setting: (&str, &str), options: &[&str]| {
        let words = ["run", "x"].iter().chain(options).copied().chain(["--", "sh", "-c", script]);
        let ran = said(bare().args(words).env(setting.0, setting.1));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out.trim_end().to_owned()
    };
    let open = format!("redis://{address}?prefix={}:", place.prefix);
    assert_eq!(finds(("LOCKWRIGHT_URL", &secret), &[]), open);
    assert_eq!(finds(("LOCKWRIGHT_URL", &secret), &["--pass-password"]), secret);
    assert_eq!(finds(("LOCKWRIGHT_URL", &open), &[]), open);
    let file = place.folder.join("address");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    assert_eq!(finds(("LOCKWRIGHT_URL_FILE", file.to_str().unwrap()), &[]), "none");
}

#[test]
fn the_address_may_be_in_a_file_or_behind_a_descriptor() {
    let place = TestStore::new();
    let file = place.folder.join("address");
    std::fs::write(&file, format!("{}\nwhatever else\n", place.url)).unwrap();
    let file = file.to_str().unwrap();
    let _first = holder(&place, &[]);
    assert_eq!(said(bare().args(["--url-file", file, "try", "x"])).code, Some(75));
    assert_eq!(said(bare().args(["try", "x"]).env("LOCKWRIGHT_URL_FILE", file)).code, Some(75));
    let both = said(bare().args(["try", "x"]).env("LOCKWRIGHT_URL_FILE", file).env("LOCKWRIGHT_URL", &place.url));
    assert!(both.code == Some(64) && both.err.contains("both set"), "{both:?}");
    let mut shell = std::process::Command::new("sh");
    // The processes that `run` starts do not read it again.
    let script = format!("{} run --url-file /dev/fd/3 y -- echo ran 3<{file}", env!("CARGO_BIN_EXE_lockwright"));
    let ran = said(shell.args(["-c", &script]).env_remove("LOCKWRIGHT_URL"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ran\n"), "{ran:?}");
}

#[test]
fn signals_reach_the_command() {
    let place = TestStore::new();
    let script = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s\" $s; done
        trap 'echo WINCH; exit 3' WINCH; echo ready; while :; do sleep 0.01; done";
    // Whoever runs the tests in the background ignores some signals.
    let mut command = std::process::Command::new("env");
    let arguments = ["--default-signal", env!("CARGO_BIN_EXE_lockwright"), "run", "x", "--", "bash", "-c", script];
    let mut run = Talking::to(command.args(arguments).env("LOCKWRIGHT_URL", &place.url));
    assert_eq!(run.out.next(), "ready");
    let signals = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ];
    for (signal, name) in signals {
        run.signal(signal);
        assert_eq!(run.out.next(), name);
    }
    assert_eq!(run.code(), Some(3));
}

#[test]
fn a_signal_that_our_starter_ignores_stays_ignored() {
    let place = TestStore::new();
    let mut command = std::process::Command::new("sh");
    let script = format!(
        "trap '' HUP; exec {} run x -- sh -c 'grep SigIgn /proc/self/status; read go; echo $go'",
        env!("CARGO_BIN_EXE_lockwright")
    );
    command.args(["-c", &script]).env("LOCKWRIGHT_URL", &place.url);
    let mut run = Talking::to(&mut command);
    let ignored = u64::from_str_radix(run.out.next().rsplit('\t').next().unwrap(), 16).unwrap();
    assert_eq!(ignored & 1, 1);
    run.signal(Signal::HUP);
    run.write("on");
    assert_eq!((run.out.next(), run.code()), ("on".to_owned(), Some(0)));
}

#[test]
fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let place = TestStore::new();
    let mut first = holder(&place, &[]);
    let mut second = place.starts(["run", "x", "--", "echo", "never"]);
    while !place.says(["inspect", "x", "--json"]).out.contains("\"waiters\":1") {
        assert!(second.child.try_wait().unwrap().is_none());
    }
    second.signal(Signal::INT);
    assert_eq!((second.code(), second.out.rest()), (Some(130), vec![]));
    assert!(place.says(["inspect", "x", "--json"]).out.contains("\"waiters\":0"));
    first.write("go");
    assert_eq!(first.code(), Some(0));
}

#[test]
fn what_the_command_leaves_running_ends_before_the_lock_is_free() {
    let place = TestStore::new();
    // The first goes when asked, the second has to be killed.
    let script = "sleep 1000 & echo $!; (trap '' TERM; echo ready; while :; do sleep 1000; done) & echo $!; read go";
    let mut run = place.starts(["run", "x", "--ttl", "1s", "--", "bash", "-c", script]);
    let pids: Vec<_> = (0..3).map(|_| run.out.next()).filter(|line| line != "ready").collect();
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    run.write("go");
    let next =
        place.says(["run", "x", "--", "sh", "-c", &format!("cat /proc/{}/status /proc/{}/status", pids[0], pids[1])]);
    assert!(!pids.iter().any(|pid| runs(pid)), "{}", next.out);
    assert!(!shows_life(&next.out), "{}", next.out);
    assert_eq!(run.code(), Some(0));
}

/// A command that ignores SIGTERM, with a child that does too; says both their pids.
const STUBBORN: &str = "trap 'echo term' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 0.01; done) &
    echo $$; while :; do wait; done";

#[test]
fn nothing_of_it_outlives_a_killed_run() {
    let place = TestStore::new();
    let mut run = place.starts(["run", "x", "--", "bash", "-c", STUBBORN]);
    let pids = [run.out.next(), run.out.next()];
    assert!(pids.iter().all(|pid| runs(pid)));
    run.signal(Signal::KILL);
    run.out.rest();
    end(&pids);
    assert_eq!(run.code(), None);
}

#[test]
fn nothing_of_it_outlives_the_lease_of_a_stopped_run() {
    let place = TestStore::new();
    let mut run = place.starts(["run", "x", "--ttl", "500ms", "--", "bash", "-c", STUBBORN]);
    let pids = [run.out.next(), run.out.next()];
    run.signal(Signal::STOP);
    let script = format!("cat /proc/{}/status /proc/{}/status", pids[0], pids[1]);
    let next = place.says(["run", "x", "--", "sh", "-c", &script]);
    assert!(!shows_life(&next.out), "{}", next.out);
    assert_eq!(run.out.next(), "term");
    run.signal(Signal::CONT);
    assert_eq!(run.code(), Some(73));
    assert!(run.err.rest().iter().any(|line| line.starts_with("lockwright: lost: ")));
}

#[test]
fn a_command_does_not_run_without_its_warden() {
    let place = TestStore::new();
    let mut run = place.starts(["run", "x", "--", "bash", "-c", STUBBORN]);
    let pids = [run.out.next(), run.out.next()];
    let children = format!("/proc/{0}/task/{0}/children", run.child.id());
    let children = std::fs::read_to_string(children).unwrap();
    let warden = children.split_whitespace().find(|pid| !pids.contains(&(*pid).to_owned())).unwrap();
    kill_process(Pid::from_raw(warden.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    assert!(runs(warden) && pids.iter().all(|pid| runs(pid)));
    kill_process(Pid::from_raw(warden.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    run.out.rest();
    end(&pids);
    assert_eq!(run.code(), Some(70));
    assert_eq!(place.says(["try", "x"]).code, Some(0));
}

#[test]
fn a_lease_that_is_not_renewed_any_more_ends_the_command_first() {
    let place = TestStore::new();
    let options = ["--ttl", "600ms", "--max-hold", "600ms", "--kill-grace", "300ms"];
    let began = Instant::now();
    let mut run = place.starts(["run", "x"].into_iter().chain(options).chain(["--", "bash", "-c", STUBBORN]));
    let pids = [run.out.next(), run.out.next()];
    assert_eq!(run.out.rest(), ["term"]);
    end(&pids);
    assert_eq!(run.code(), Some(73));
    let err = run.err.rest();
    let why = err.last().unwrap();
    assert!(err[0].contains("ends in") && why.contains("max") && !why.contains("no renewal"), "{err:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_broken_lock_ends_the_command_at_once() {
    let place = TestStore::new();
    let mut run = place.starts([
        "run",
        "x",
        "--ttl",
        "900ms",
        "--",
        "bash",
        "-c",
        &format!("echo $LOCKWRIGHT_TOKEN; {STUBBORN}"),
    ]);
    let token = run.out.next();
    assert_eq!(place.says(["break", "x", "--token", &token]).code, Some(0));
    run.out.rest();
    assert_eq!(run.code(), Some(73));
}

#[test]
fn the_lock_is_kept_at_least_for_a_while() {
    let place = TestStore::new();
    let began = Instant::now();
    let mut run =
        place.starts(["run", "x", "--ttl", "300ms", "--at-least-for", "700ms", "--", "sh", "-c", "echo done; exit 4"]);
    assert_eq!(run.out.next(), "done");
    assert_eq!(place.says(["try", "x"]).code, Some(75));
    assert_eq!(place.says(["run", "x", "--", "true"]).code, Some(0));
    assert!(began.elapsed() >= Duration::from_millis(700));
    assert_eq!(run.code(), Some(4));

    let mut run = place.starts(["run", "x", "--at-least-for", "1h", "--", "sh", "-c", "echo $$"]);
    end(&[run.out.next()]);
    run.signal(Signal::TERM);
    assert_eq!((run.code(), place.says(["try", "x"]).code), (Some(0), Some(0)));
}

#[test]
fn a_command_on_a_terminal_can_read_it_and_is_interrupted_by_it() {
    let place = TestStore::new();
    let terminal = |script: &str| {
        let run = format!("{} run x -- bash -c '{script}'; echo code $?", env!("CARGO_BIN_EXE_lockwright"));
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &run, "/dev/null"]).env("LOCKWRIGHT_URL", &place.url);
        Talking::to(&mut command)
    };
    let until = |lines: &common::Lines, wanted: &str| while !lines.next().contains(wanted) {};

    let mut session = terminal("echo ready; read line; echo got $line");
    until(&session.out, "ready");
    session.write("hello");
    until(&session.out, "got hello");
    until(&session.out, "code 0");
    assert_eq!(session.code(), Some(0));

    // The job control of a shell: stopped and continued, together with what is run.
    let mut command = std::process::Command::new("script");
    let mut shell =
        Talking::to(command.args(["-qec", "bash --norc -i", "/dev/null"]).env("LOCKWRIGHT_URL", &place.url));
    let script = "echo is-$((6*7)); read line; echo got $line";
    shell.write(&format!("{} run x -- bash -c '{script}'", env!("CARGO_BIN_EXE_lockwright")));
    until(&shell.out, "is-42");
    shell.press("\u{1a}");
    until(&shell.out, "Stopped");
    shell.write("fg");
    until(&shell.out, "lockwright run x");
    shell.write("hello");
    until(&shell.out, "got hello");

    let mut session = terminal("trap \"echo interrupted; exit 5\" INT; echo ready; while :; do sleep 0.01; done");
    until(&session.out, "ready");
    session.press("\u{3}");
    until(&session.out, "interrupted");
    until(&session.out, "code 5");
}

#[test]
fn a_lock_file_that_is_taken_away_or_blocked_ends_the_command() {
    let place = TestStore::new();
    if !place.url.starts_with("sqlite:") {
        return;
    }
    let file = place.folder.join("locks.db");
    let held = || {
        let run = place.starts(["run", "x", "--ttl", "600ms", "--", "bash", "-c", STUBBORN]);
        let pids = [run.out.next(), run.out.next()];
        (run, pids)
    };

    let (mut run, pids) = held();
    let blocker = rusqlite::Connection::open(&file).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(run.out.rest(), ["term"]);
    end(&pids);
    assert_eq!(run.code(), Some(73));
    drop(blocker);

    let (mut run, pids) = held();
    std::fs::rename(&file, place.folder.join("elsewhere")).unwrap();
    run.out.rest();
    end(&pids);
    assert_eq!(run.code(), Some(73));
}

/// A way to a server that can be cut: what it has got so far still arrives, nothing more does.
fn cuttable(server: &str) -> (u16, std::sync::Arc<std::sync::atomic::AtomicBool>) {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    let cut = std::sync::Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (server, is_cut) = (server.to_owned(), cut.clone());
    std::thread::spawn(move || {
        let pump = |mut from: TcpStream, mut to: TcpStream, is_cut: std::sync::Arc<AtomicBool>| {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    if !is_cut.load(Ordering::Relaxed) && to.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        };
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&server).unwrap();
            pump(client.try_clone().unwrap(), server.try_clone().unwrap(), is_cut.clone());
            pump(server, client, is_cut.clone());
        }
    });
    (port, cut)
}

#[test]
fn a_store_that_stops_answering_ends_the_command_before_the_lease() {
    let Ok(server) = std::env::var("LOCKWRIGHT_TEST_REDIS") else {
        return eprintln!("skipped: LOCKWRIGHT_TEST_REDIS names no server");
    };
    let address = server.trim_start_matches("redis://").split(['/', '?']).next().unwrap().to_owned();
    let (port, cut) = cuttable(&address);
    let mut place = TestStore::new();
    place.url = format!("redis://127.0.0.1:{port}");
    let mut run = place.starts(["run", "x", "--ttl", "1s", "--max-hold", "1h", "--", "bash", "-c", STUBBORN]);
    let pids = [run.out.next(), run.out.next()];
    // Whoever waits at the server itself has the lock as soon as the lease is over there.
    place.url = server;
    let script = format!("cat /proc/{}/status /proc/{}/status; true", pids[0], pids[1]);
    let mut next = place.starts(["run", "x", "--", "sh", "-c", &script]);
    while !place.says(["inspect", "x", "--json"]).out.contains("\"waiters\":1") {
        assert!(next.child.try_wait().unwrap().is_none());
    }
    cut.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(run.out.next(), "term");
    let seen = next.out.rest().join("\n");
    assert!(next.code() == Some(0) && !shows_life(&seen), "{seen}");
    assert_eq!(run.code(), Some(73));
    let err = run.err.rest();
    assert!(err[0].contains("ends in") && err[1].starts_with("lockwright: lost: "), "{err:?}");
    assert!(err[1].contains("renewal") && !err[1].contains("max"), "{err:?}");
}

#[test]
fn a_lock_that_is_asked_for_is_given_back_once_the_command_has_ended() {
    let Ok(server) = std::env::var("LOCKWRIGHT_TEST_ZOOKEEPER") else {
        return eprintln!("skipped: LOCKWRIGHT_TEST_ZOOKEEPER names no server");
    };
    let (name, waits) =
        (format!("cli-{}", std::process::id()), "trap 'echo asked; exit 3' TERM; echo held; sleep 60 & wait");
    let options = ["run", &name, "--revocable", "--at-least-for", "1h", "--", "sh", "-c", waits];
    let mut run = Talking::to(bare().env("LOCKWRIGHT_URL", &server).args(options));
    assert_eq!(run.out.next(), "held");
    let client = lockwright::blocking::connect(&server).unwrap();
    let holder = client.inspect(&name).unwrap().holder.unwrap();
    let lock = client.lock(&name).build().unwrap();
    assert!(lock.request_release(lockwright::Token::new(holder.first_token)).unwrap());
    assert!(run.err.next().starts_with("lockwright: asked for: "));
    assert_eq!((run.out.next().as_str(), run.code()), ("asked", Some(3)));
    assert!(client.inspect(&name).unwrap().is_free());
    let refused = TestStore::new().says(["run", "x", "--revocable", "--", "echo", "never"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(64), ""));
    assert!(refused.err.starts_with("lockwright: unsupported: "), "{}", refused.err);
}

#[test]
fn options_that_cannot_be_honoured_are_refused_before_anything_runs() {
    let place = TestStore::new();
    for options in
        [&["--ttl", "1ms"][..], &["--kill-grace", "20s"], &["--max-hold", "1s"], &["--try", "--timeout", "1s"]]
    {
        let refused = place.says(["run", "x"].iter().chain(options).copied().chain(["--", "echo", "never"]));
        assert_eq!((refused.code, refused.out.as_str()), (Some(64), ""), "{options:?}");
        assert!(refused.err.starts_with("lockwright: invalid_config: "), "{}", refused.err);
    }
    let no_store = said(bare().args(["--url", "memory://", "run", "x", "--", "echo", "never"]));
    assert_eq!((no_store.code, no_store.out.as_str()), (Some(64), ""));
}
