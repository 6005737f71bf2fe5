//! The larger spaces of contenders for one lock of etcd's: see `concurrency`.

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

#[test]
fn who_comes_again_and_two_things_happen() {
    let alone = &[Wish::WaitsTwice];
    Setup::of("etcd: alone, it comes again, two faults without an answer", alone).with(2, ANY).with_silence().check();
}

#[test]
fn two_parties_that_meet_again_and_one_fails() {
    let one = &[Wish::MeetsTwice, Wish::Meets];
    Setup::of("etcd: one meets twice, one gives up", one).with(1, &[Fault::Cancel]).check();
    Setup::of("etcd: one meets twice, a lease ends", one).with(1, &[Fault::Expiry]).check();
    Setup::of("etcd: one meets twice, a client is stopped", one).with(1, &[Fault::Stop]).check();
    let both = &[Wish::MeetsTwice; 2];
    Setup::of("etcd: two meet twice, a connection is lost", both).with(1, &[Fault::Loss]).check();
}
