//! What a caller insists on before it uses anything. Nothing is sent: the addresses lead nowhere.

use lockwright::blocking::{Client, connect};
use lockwright::guarantee::Requirements;
use lockwright::{Kind, Result};

const NOTHING: Requirements = Requirements {
    rwlock: false,
    semaphore: false,
    latch: false,
    barrier: false,
    fenced: false,
    fair: false,
    reentrant: false,
    shared: false,
    push: false,
    failover_safe: false,
};

fn client(layout: &str) -> Client {
    connect(&format!("redis://127.0.0.1:1?{layout}")).unwrap()
}

/// What is said to be missing.
fn missing(required: Result<()>) -> String {
    let error = required.expect_err("something is missing");
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    let text = error.to_string();
    let (_, rest) = text.split_once("does not promise: ").unwrap_or_else(|| panic!("{text}"));
    rest.split_once("; choose another").unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

#[test]
fn what_is_insisted_on_is_asked_of_the_primitives_that_are_named() {
    let all = Requirements { rwlock: true, semaphore: true, latch: true, barrier: true, ..NOTHING };
    client("").require(Requirements { fenced: true, fair: true, shared: true, push: true, ..all }).unwrap();
    // Latches and barriers have no holder whom order, tokens or owners could say something of.
    client("")
        .require(Requirements { latch: true, barrier: true, fenced: true, fair: true, reentrant: true, ..NOTHING })
        .unwrap();
    client("").require(Requirements { reentrant: true, ..NOTHING }).unwrap();
    let wanted = Requirements { reentrant: true, failover_safe: true, ..all };
    assert_eq!(
        missing(client("").require(wanted)),
        "reentrant of a rwlock, failover_safe of a rwlock, reentrant of a semaphore, failover_safe of a semaphore, \
         failover_safe of a latch, failover_safe of a barrier"
    );
    assert_eq!(missing(client("").require(Requirements { failover_safe: true, ..NOTHING })), "failover_safe");
}

#[test]
fn a_layout_that_has_them_not_says_so_and_one_whose_own_promise_less_too() {
    let string = client("layout=string&format=redis-py");
    string.require(Requirements { fenced: true, shared: true, ..NOTHING }).unwrap();
    let wanted = Requirements { rwlock: true, semaphore: true, latch: true, barrier: true, push: true, ..NOTHING };
    assert_eq!(missing(string.require(wanted)), "rwlock, semaphore, latch, barrier");
    let redisson = client("layout=redisson");
    redisson.require(Requirements { fair: true, push: true, ..NOTHING }).unwrap();
    redisson.require(Requirements { rwlock: true, semaphore: true, push: true, fenced: true, ..NOTHING }).unwrap();
    let wanted = Requirements { rwlock: true, fair: true, latch: true, ..NOTHING };
    assert_eq!(missing(redisson.require(wanted)), "fair of a rwlock, latch");
}
