//! Everything that can happen to contenders for one lock of etcd's, whose keys live as long as their clients' leases:
//! the worlds of `curator`, with a model of etcd as the server.
//!
//! A request that was lost may be executed later, also after it was undone: then the fence that it carries keeps it
//! from doing anything. What is told of the queue comes in its order, but beside the answers.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

mod process;
#[path = "explore/processor.rs"]
mod processor;
#[path = "curator/search.rs"]
mod search;
#[path = "concurrency/server.rs"]
mod server;
#[path = "curator/setup.rs"]
mod setup;
#[path = "explore/view.rs"]
mod view;
#[path = "curator/world.rs"]
mod world;

use setup::{ANY, Fault, Setup, Wish};

const TWO: &[Wish] = &[Wish::Waits; 2];

#[test]
fn two_contenders_in_every_order() {
    Setup::of("etcd: two wait", TWO).check();
}

#[test]
fn two_contenders_of_which_one_gives_up() {
    Setup::of("etcd: one gives up", TWO).with(1, &[Fault::Cancel]).check();
}

#[test]
fn two_contenders_and_a_lease_that_ends() {
    Setup::of("etcd: a lease ends", TWO).with(1, &[Fault::Expiry]).check();
}

#[test]
fn two_contenders_and_a_connection_that_is_lost() {
    Setup::of("etcd: a connection is lost", TWO).with(1, &[Fault::Loss]).check();
}

#[test]
fn two_contenders_of_which_one_is_stopped() {
    Setup::of("etcd: a client is stopped", TWO).with(1, &[Fault::Stop]).check();
}

#[test]
fn two_contenders_whose_driver_does_not_say_what_was_lost() {
    Setup::of("etcd: what is lost has no answer", TWO).with(1, &[Fault::Loss, Fault::Expiry]).with_silence().check();
}

#[test]
fn two_contenders_of_which_one_only_tries() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Stop, Fault::Cancel];
    Setup::of("etcd: one only tries", &[Wish::Waits, Wish::Tries]).with(1, faults).check();
}

#[test]
fn one_contender_alone_to_whom_two_things_happen() {
    Setup::of("etcd: alone, two faults", &[Wish::Waits]).with(2, ANY).check();
    Setup::of("etcd: alone, two faults without an answer", &[Wish::Waits]).with(2, ANY).with_silence().check();
}

#[test]
fn three_contenders_in_every_order() {
    Setup::of("etcd: three wait", &[Wish::Waits; 3]).check();
}
