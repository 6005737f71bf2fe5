//! Everything that can happen to two clients, one store and one lock, happens here.
//!
//! The shipped Session, local queue and `native` protocol run against the shipped reference semantics of the store. Every
//! message is its own event and may be delayed for as long as one likes, overtaken by any other; a client that is not
//! scheduled while time passes is a paused one; and one thing may go wrong.

mod glue;
#[path = "explore/search.rs"]
mod search;
#[path = "explore/world.rs"]
mod world;

use std::time::Duration;

use search::explore;
use world::{CLASSES, Class, Setup, Wish};

const WISH: Wish = Wish { fair: false, may_cancel: false, early: false, ttl: None };
const EARLY: Wish = Wish { early: true, ..WISH };

impl Setup {
    /// How many ticks a run without further faults may take from the worst state there is: until everybody is served, and
    /// until nothing is left.
    fn bound(&self, _class: Class) -> (u16, u16) {
        (20, 20)
    }
}

fn two_clients(name: &'static str) -> Setup {
    Setup {
        name,
        tick: Duration::from_secs(1),
        ttl: 2,
        renew: true,
        response_timeout: 1,
        store_timeout: 1000,
        stale: 0,
        clients: vec![vec![WISH], vec![WISH]],
        cold: false,
        behind: 0,
        faults: Vec::new(),
    }
}

fn check(setup: &Setup, most: usize) {
    match explore(setup, most) {
        Ok(_) => {}
        Err(violation) => panic!("{}: {}\n{}", setup.name, violation.what, violation.trace),
    }
}

fn any_fault() -> Vec<Class> {
    CLASSES.into_iter().filter(|class| *class != Class::None).collect()
}

const FICKLE: Wish = Wish { may_cancel: true, ..WISH };
const FAIR: Wish = Wish { fair: true, ..EARLY };

#[test]
fn no_fault() {
    check(&two_clients("no fault"), 20_000_000);
}

#[test]
#[ignore = "long"]
fn one_fault() {
    check(&Setup { faults: any_fault(), ..two_clients("one fault") }, 20_000_000);
}

#[test]
#[ignore = "long"]
fn cancel0() {
    check(&Setup { clients: vec![vec![FICKLE], vec![FICKLE]], ..two_clients("cancel") }, 20_000_000);
}

#[test]
#[ignore = "long"]
fn cancel1() {
    check(
        &Setup { faults: any_fault(), clients: vec![vec![FICKLE], vec![WISH]], ..two_clients("cancel, fault") },
        40_000_000,
    );
}

fn slow(name: &'static str) -> Setup {
    Setup { tick: Duration::from_millis(500), ttl: 3, ..two_clients(name) }
}

#[test]
fn long0() {
    check(&slow("ttl 3 claim 2"), 20_000_000);
}

#[test]
#[ignore = "long"]
fn long1() {
    check(&Setup { faults: any_fault(), ..slow("ttl 3 claim 2, fault") }, 40_000_000);
}

#[test]
#[ignore = "long"]
fn solo0() {
    let other = Wish { ttl: Some(3), ..WISH };
    check(&Setup { stale: 1, clients: vec![vec![EARLY, other], vec![]], ..two_clients("solo") }, 20_000_000);
}

#[test]
#[ignore = "long"]
fn solo1() {
    let other = Wish { ttl: Some(3), ..WISH };
    check(
        &Setup {
            stale: 1,
            faults: any_fault(),
            clients: vec![vec![EARLY, other], vec![]],
            ..two_clients("solo, fault")
        },
        20_000_000,
    );
}

#[test]
#[ignore = "long"]
fn yield0() {
    check(&Setup { clients: vec![vec![EARLY, EARLY], vec![WISH]], ..two_clients("yield") }, 20_000_000);
}

#[test]
#[ignore = "long"]
fn fair0() {
    check(&Setup { clients: vec![vec![FAIR, FAIR], vec![FAIR]], ..two_clients("fair") }, 20_000_000);
}

#[test]
#[ignore = "long"]
fn cold0() {
    check(&Setup { cold: true, behind: 2, ..two_clients("cold") }, 20_000_000);
}

#[test]
fn impatient0() {
    check(&Setup { store_timeout: 2, ..two_clients("impatient") }, 20_000_000);
}

#[test]
fn norenew0() {
    check(&Setup { renew: false, ..two_clients("no renewal") }, 20_000_000);
}
