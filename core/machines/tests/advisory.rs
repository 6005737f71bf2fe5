//! Everything that can happen to contenders for one lock that a database keeps for a connection: the worlds of
//! `curator`, with a model of the database, and of the driver, as the server.
//!
//! A connection that is lost is a session that is left: the database keeps what that has until it notices, and does
//! what was on its way.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

mod process;
#[path = "explore/processor.rs"]
mod processor;
#[path = "curator/search.rs"]
mod search;
#[path = "advisory/server.rs"]
mod server;
#[path = "curator/setup.rs"]
mod setup;
#[path = "explore/view.rs"]
mod view;
#[path = "curator/world.rs"]
mod world;

use setup::{Fault, Setup, Wish};

fn setup(name: &'static str, wishes: &[Wish]) -> Setup {
    Setup::of(name, wishes).polled()
}

const TWO: &[Wish] = &[Wish::Waits; 2];
/// All that can befall a connection which is the session.
const FAULTS: &[Fault] = &[Fault::Expiry, Fault::Leave, Fault::Stop, Fault::Cancel];

#[test]
fn contenders_in_every_order() {
    setup("advisory: two wait", TWO).check();
    setup("advisory: three wait", &[Wish::Waits; 3]).check();
    setup("advisory: one waits, one tries", &[Wish::Waits, Wish::Tries]).check();
}

#[test]
fn two_contenders_to_whom_something_happens() {
    for (name, fault) in [
        ("advisory: a connection is silent for too long", &[Fault::Expiry]),
        ("advisory: a client takes another connection", &[Fault::Leave]),
        ("advisory: a client is stopped", &[Fault::Stop]),
        ("advisory: one gives up", &[Fault::Cancel]),
    ] {
        setup(name, TWO).with(1, fault).with_silence().check();
    }
}

#[test]
fn one_only_tries_and_something_happens() {
    let both = &[Wish::Waits, Wish::Tries];
    setup("advisory: one tries, a fault", both).with(1, FAULTS).with_silence().check();
}

#[test]
fn one_contender_alone_to_whom_two_things_happen() {
    setup("advisory: alone, two faults", &[Wish::Waits]).with(2, FAULTS).with_silence().check();
}
