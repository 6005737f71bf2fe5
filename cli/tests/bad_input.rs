//! What cannot be honoured is refused in one line that says why, and nothing is sent.

mod common;

use common::{TestStore, bare, said};

#[test]
fn bad_input_is_refused_in_one_line() {
    let store = TestStore::new();
    let long = "x".repeat(1025);
    let label = "x".repeat(129);
    let cases: &[(&[&str], &str)] = &[
        (&["try", ""], "empty"),
        (&["try", "a\nb"], "U+000A"),
        (&["try", &long], "1025 bytes"),
        (&["inspect", ""], "empty"),
        (&["inspect", "\u{1b}[2J"], "U+001B"),
        (&["break", "", "--token", "1"], "empty"),
        (&["break", "x", "--token", "-1"], "-1"),
        (&["break", "x", "--token", "seven"], "seven"),
        (&["run", "x"], "COMMAND"),
        (&["run", "x", "true"], "put -- before the command, as in: lockwright run NAME -- true"),
        (&["run", "--", "true"], "NAME"),
        (&["run", "x", "--ttl", "soon", "--", "true"], "500ms, 10s, 2m"),
        (&["run", "x", "--ttl=-1s", "--", "true"], "-1s"),
        (&["run", "x", "--ttl", "-1s", "--", "true"], "write a span"),
        (&["run", "x", "--if-taken", "256", "--", "true"], "256"),
        (&["--url-file", "/does/not/exist", "ls"], "/does/not/exist"),
        (&["--url-file", "/dev/null", "ls"], "no address"),
        (&["--log", "json", "ls"], "not a log filter"),
        (&["run", "x", "--ttl", "25h", "--", "true"], "ttl"),
        (&["run", "x", "--timeout", "11y", "--", "true"], "11y"),
        (&["run", "x", "--at-least-for", "", "--", "true"], "--at-least-for"),
        (&["run", "x", "--label", &label, "--", "true"], "129 bytes"),
        (&["run", "x", "--layout", "no-such&layout", "--", "true"], "no-such&layout"),
        (&["--url", "carrier-pigeon://loft", "try", "x"], "carrier-pigeon"),
        (&["--url", "nothing", "try", "x"], "not a URI"),
        (&["--url", "", "try", "x"], "the address is empty"),
        (&["--url", "mysql://h", "try", "x"], "mysql"),
        (&["--url", "memory://", "ls"], "one process"),
        (&["--url", "memory://?ttl=never", "ls"], "never"),
        (&["--url", "memory://?colour=blue", "ls"], "colour"),
        (&["demo", "--workers", "0"], "--workers"),
        (&["demo", "--stock", "0"], "--stock"),
        (&["demo", "--store", "memory://"], "one process"),
        (&["--log", "debug=loud", "ls"], "debug=loud"),
        (&["frobnicate"], "frobnicate"),
        (&["try", "x", "--frobnicate"], "--frobnicate"),
    ];
    for (arguments, part) in cases {
        let refused = store.says(arguments.iter().copied());
        assert_eq!((refused.code, refused.out.as_str()), (Some(64), ""), "{arguments:?}: {refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{arguments:?}: {}", refused.err);
        assert!(
            refused.err.starts_with("lockwright: ") && refused.err.contains(part),
            "{arguments:?}: {}",
            refused.err
        );
    }
}

#[test]
fn a_password_is_not_repeated() {
    for url in [
        "carrier-pigeon://ada:hunter2@loft",
        "redis://ada:hunter2@loft:notaport",
        "redis://ada:hunter2@127.0.0.1:1?store_timeout=100ms",
    ] {
        let refused = said(bare().args(["--url", url, "try", "x"]));
        assert!(refused.code != Some(0) && !refused.err.contains("hunter2"), "{}", refused.err);
    }
}

#[test]
fn a_store_that_does_not_answer_is_unavailable() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}?store_timeout=200ms&response_timeout=50ms&connect_timeout=50ms");
    for command in [&["try", "x"][..], &["inspect", "x"], &["ls"], &["run", "x", "--", "echo", "never"], &["demo"]] {
        let refused = said(bare().args(["--url", &url]).args(command));
        assert_eq!((refused.code, refused.out.as_str()), (Some(69), ""), "{command:?}: {refused:?}");
        assert!(refused.err.lines().all(|line| line.starts_with("lockwright: unavailable: ")), "{}", refused.err);
    }
}

#[test]
fn help_is_for_stdout_and_a_closed_pipe_is_no_error() {
    let help = said(bare().arg("--help"));
    assert!(help.code == Some(0) && help.err.is_empty() && help.out.contains("Exit codes:"));
    assert!(said(bare().args(["run", "--help"])).out.contains("LOCKWRIGHT_TOKEN"));
    let nothing = said(&mut bare());
    assert!(nothing.code == Some(64) && nothing.out.is_empty() && nothing.err.contains("Usage:"));

    let store = TestStore::new();
    let mut command = std::process::Command::new("bash");
    let script = format!("set -o pipefail; {} ls | true", env!("CARGO_BIN_EXE_lockwright"));
    let closed = said(command.args(["-c", &script]).env("LOCKWRIGHT_URL", &store.url));
    assert!(matches!(closed.code, Some(0 | 141)) && closed.err.is_empty(), "{closed:?}");
}
