//! Every example holds on every store.

use std::process::Command;

fn holds(example: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let redis = std::env::var("LOCKWRIGHT_TEST_REDIS")
        .expect("set LOCKWRIGHT_TEST_REDIS to what conformance/services/redis.sh start prints");
    for place in ["memory://examples", &format!("sqlite://{}/locks.db", folder.path().display()), &redis] {
        let done = Command::new(example).arg(place).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}");
        assert!(done.status.success(), "{place}: {said}{}", String::from_utf8_lossy(&done.stderr));
        assert!(said.contains("verdict: it held"), "{place}: {said}");
    }
}

#[test]
fn flash_sale() {
    holds(env!("CARGO_BIN_EXE_flash-sale"));
}

#[test]
fn cache_rebuild() {
    holds(env!("CARGO_BIN_EXE_cache-rebuild"));
}

#[test]
fn token_refresh() {
    holds(env!("CARGO_BIN_EXE_token-refresh"));
}

#[test]
fn two_for_five() {
    holds(env!("CARGO_BIN_EXE_two-for-five"));
}
