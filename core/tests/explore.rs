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

const WISH: Wish = Wish { fair: false, may_cancel: false };

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
        forget_stale: true,
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

#[test]
fn no_fault() {
    check(&two_clients("no fault"), 20_000_000);
}

#[test]
fn one_fault() {
    let faults = CLASSES.into_iter().filter(|class| *class != Class::None).collect();
    check(&Setup { faults, ..two_clients("one fault") }, 20_000_000);
}
