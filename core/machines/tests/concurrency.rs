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

use lockwright_machines::share::{Primitive, Share};
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

const READS: Wish = Wish::WaitsFor(Share::READ);
const WRITES: Wish = Wish::WaitsFor(Share::WRITE);
const ONE_OF_TWO: Share = Share { primitive: Primitive::Semaphore, units: 1, capacity: 2, in_order: false };
const TAKES: Wish = Wish::WaitsFor(ONE_OF_TWO);
const TAKES_TWO: Wish = Wish::WaitsFor(Share { units: 2, ..ONE_OF_TWO });

#[test]
fn a_reader_and_a_writer() {
    let both = &[READS, WRITES];
    Setup::of("etcd: read and write", both).check();
    Setup::of("etcd: read and write, a lease ends", both).with(1, &[Fault::Expiry]).check();
    Setup::of("etcd: read and write, a connection is lost", both).with(1, &[Fault::Loss]).check();
    Setup::of("etcd: read and write, one gives up or is stopped", both).with(1, &[Fault::Cancel, Fault::Stop]).check();
}

#[test]
fn readers_and_writers_in_every_order() {
    Setup::of("etcd: two read, one writes", &[READS, READS, WRITES]).check();
    Setup::of("etcd: one reads, two write", &[READS, WRITES, WRITES]).check();
}

#[test]
fn a_reader_or_a_writer_that_only_tries() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Cancel];
    Setup::of("etcd: one writes, one tries to read", &[WRITES, Wish::TriesFor(Share::READ)]).with(1, faults).check();
    Setup::of("etcd: one reads, one tries to write", &[READS, Wish::TriesFor(Share::WRITE)]).with(1, faults).check();
}

#[test]
fn two_permits_in_every_order() {
    Setup::of("etcd: three take a permit of two", &[TAKES, TAKES, TAKES]).check();
    Setup::of("etcd: one takes both, two take one", &[TAKES, TAKES_TWO, TAKES]).check();
}

#[test]
fn permits_and_whatever_goes_wrong() {
    let both = &[TAKES, TAKES_TWO];
    Setup::of("etcd: permits, a lease ends", both).with(1, &[Fault::Expiry]).check();
    Setup::of("etcd: permits, a connection is lost", both).with(1, &[Fault::Loss]).check();
    let tries = &[TAKES_TWO, Wish::TriesFor(ONE_OF_TWO)];
    Setup::of("etcd: permits, one tries", tries).with(1, &[Fault::Loss, Fault::Expiry, Fault::Cancel]).check();
}

/// The key of an attempt comes back under another lease, or after it was removed, while what was sent before, a removal
/// among it, may be executed yet.
#[test]
fn seats_that_are_taken_again_under_the_same_name() {
    Setup::of("etcd: a permit alone, two faults", &[TAKES]).with(2, ANY).check();
    Setup::of("etcd: permits, a client takes another lease", &[TAKES, TAKES_TWO]).with(1, &[Fault::Leave]).check();
    let tries = &[TAKES_TWO, Wish::TriesFor(ONE_OF_TWO)];
    Setup::of("etcd: permits, another lease while one tries", tries).with(1, &[Fault::Leave]).check();
}

const TWICE: &[Wish] = &[Wish::WaitsTwice, Wish::Waits];

/// Whoever comes again has the seat that it left, while what was lost before may be executed yet.
#[test]
fn who_comes_again_under_the_name_that_it_had() {
    Setup::of("etcd: one comes again", TWICE).check();
    Setup::of("etcd: one comes again, one gives up", TWICE).with(1, &[Fault::Cancel]).check();
    Setup::of("etcd: one comes again, a lease ends", TWICE).with(1, &[Fault::Expiry]).check();
    Setup::of("etcd: one comes again, another lease", TWICE).with(1, &[Fault::Leave]).check();
    Setup::of("etcd: one comes again, a connection is lost", TWICE).with(1, &[Fault::Loss]).check();
    Setup::of("etcd: one comes again, a client is stopped", TWICE).with(1, &[Fault::Stop]).check();
    let tries = &[Wish::TriesTwice, Wish::Waits];
    Setup::of("etcd: one tries again", tries).with(1, &[Fault::Loss, Fault::Cancel]).check();
    Setup::of("etcd: one tries again, another lease", tries).with(1, &[Fault::Leave, Fault::Expiry]).check();
    Setup::of("etcd: alone, it comes again", &[Wish::WaitsTwice]).with(2, ANY).check();
    Setup::of("etcd: alone, it comes again, silence", &[Wish::WaitsTwice]).with(1, ANY).with_silence().check();
}

#[test]
fn a_client_hands_it_from_task_to_task() {
    let alone = Setup::of("etcd: three tasks wait", &[Wish::ThreeWait]).with(1, ANY);
    alone.check();
    Setup { name: "etcd: three tasks wait, silence", ..alone.with_silence() }.check();
    Setup::of("etcd: three tasks wait, two faults", &[Wish::ThreeWait]).with(2, ANY).check();
    let two = &[Wish::ThreeWait, Wish::Waits];
    Setup::of("etcd: three tasks wait, and another client", two).check();
    let of = |name, fault| Setup::of(name, two).with(1, fault).check();
    of("etcd: three tasks wait, and another client, one gives up", &[Fault::Cancel]);
    of("etcd: three tasks wait, and another client, a connection is lost", &[Fault::Loss]);
    of("etcd: three tasks wait, and another client, one is stopped", &[Fault::Stop]);
    of("etcd: three tasks wait, and another client, a lease ends", &[Fault::Expiry]);
    of("etcd: three tasks wait, and another client, another lease", &[Fault::Leave]);
    let silent = Setup::of("etcd: three tasks wait, and another client, silence", two);
    silent.with(1, &[Fault::Loss, Fault::Cancel]).with_silence().check();
    let both = &[Wish::ThreeWait; 2];
    Setup::of("etcd: three tasks of each of two clients wait", both).with(1, &[Fault::Loss]).check();
}

/// Nothing says that a process goes on from a copy of its memory: what was a client's alone is not any more.
#[test]
fn copies_of_a_process_that_call_what_they_put_by_one_name() {
    let (wait, tries) = (&[Wish::WaitsInCopy; 2], &[Wish::WaitsInCopy, Wish::TriesInCopy]);
    Setup::of("etcd: two copies wait", wait).check();
    Setup::of("etcd: two copies wait, one gives up", wait).with(1, &[Fault::Cancel]).check();
    Setup::of("etcd: two copies wait, a connection is lost", wait).with(1, &[Fault::Loss]).check();
    Setup::of("etcd: one copy waits, one tries", tries).with(1, &[Fault::Loss, Fault::Cancel]).check();
    Setup::of("etcd: three copies wait", &[Wish::WaitsInCopy; 3]).check();
    let (both, one) = (&[Wish::ThreeWaitInCopy; 2], &[Wish::ThreeWaitInCopy, Wish::WaitsInCopy]);
    Setup::of("etcd: three tasks of each of two copies wait", both).check();
    Setup::of("etcd: three tasks of a copy wait, and another copy, a fault", one)
        .with(1, &[Fault::Loss, Fault::Cancel])
        .check();
}

const MEET: &[Wish] = &[Wish::Meets; 2];

#[test]
fn two_parties_in_every_order() {
    Setup::of("etcd: two meet", MEET).check();
    Setup::of("etcd: one waits, one tries to pass", &[Wish::Meets, Wish::TriesToMeet]).check();
}

#[test]
fn two_parties_of_which_one_fails() {
    for fault in [&[Fault::Cancel], &[Fault::Loss], &[Fault::Expiry], &[Fault::Stop]] {
        Setup::of("etcd: two meet, a fault", MEET).with(1, fault).check();
    }
    Setup::of("etcd: two meet, what is lost has no answer", MEET).with(1, &[Fault::Loss]).with_silence().check();
}

#[test]
fn two_parties_that_meet_again() {
    Setup::of("etcd: two meet twice", &[Wish::MeetsTwice; 2]).check();
    let one = &[Wish::MeetsTwice, Wish::Meets];
    Setup::of("etcd: one meets twice, a connection is lost", one).with(1, &[Fault::Loss]).check();
}

#[test]
fn three_of_whom_two_meet() {
    Setup::of("etcd: three want to meet", &[Wish::Meets; 3]).check();
}

const LATCHES: &[Wish] = &[Wish::WaitsForLatch; 2];

#[test]
fn two_wait_for_a_latch() {
    Setup::of("etcd: two wait for a latch", LATCHES).check();
    Setup::of("etcd: one waits for a latch, one tries", &[Wish::WaitsForLatch, Wish::TriesLatch]).check();
}

#[test]
fn one_waits_for_a_latch_and_whatever_goes_wrong() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Stop, Fault::Cancel];
    Setup::of("etcd: one waits for a latch, a fault", &[Wish::WaitsForLatch]).with(1, faults).check();
}
