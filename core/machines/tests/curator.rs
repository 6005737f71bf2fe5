//! Everything that can happen to contenders for one lock of Curator's happens here, on a server with sessions: every
//! order in which requests are executed and answers and watches arrive, connections that are lost and sessions that end
//! at any time, clients that are stopped, and whoever gives up.
//!
//! Each client runs the shipped machine, with its queue and its Session bound to the client's session. It has a clock
//! of its own: its session lives on while it is neither stopped nor cut off, and what the server does to it after its
//! deadline it may learn late, in any order. A timer that is due within a tick comes by itself; later ones guard
//! against lost events only, so that nobody may need them.
//!
//! In every state: at most one client believes to hold the lock, its node is the first at the server, made by its own
//! living session and with its token; tokens rise; nobody loses it, or is refused, whom nothing befell. From every
//! state: whatever more is due comes to an end, and then everybody is answered, idle, and no node is left.
//! `curator_full` visits larger spaces.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

#[path = "curator/counting.rs"]
mod counting;
mod process;
#[path = "explore/processor.rs"]
mod processor;
#[path = "curator/search.rs"]
mod search;
#[path = "curator/server.rs"]
mod server;
#[path = "curator/setup.rs"]
mod setup;
#[path = "explore/view.rs"]
mod view;
#[path = "curator/world.rs"]
mod world;

use counting::{Grain, count_down};
use lockwright_machines::share::{Primitive, Share};
use server::Server;
use setup::{ANY, Fault, Setup, Wish};

const TWO: &[Wish] = &[Wish::Waits; 2];
const READS: Wish = Wish::WaitsFor(Share::READ);
const WRITES: Wish = Wish::WaitsFor(Share::WRITE);
const ONLY: Share = Share { primitive: Primitive::Semaphore, units: 1, capacity: 1, in_order: false };
const PERMIT: Wish = Wish::WaitsFor(ONLY);
const TRIES_PERMIT: Wish = Wish::TriesFor(ONLY);

#[test]
fn two_contenders_in_every_order() {
    Setup::of("curator: two wait", TWO).check();
}

#[test]
fn two_contenders_of_which_one_gives_up() {
    Setup::of("curator: one gives up", TWO).with(1, &[Fault::Cancel]).check();
}

#[test]
fn two_contenders_and_a_session_that_ends() {
    Setup::of("curator: a session ends", TWO).with(1, &[Fault::Expiry]).check();
}

#[test]
fn two_contenders_and_a_connection_that_is_lost() {
    Setup::of("curator: a connection is lost", TWO).with(1, &[Fault::Loss]).check();
}

#[test]
fn two_contenders_of_which_one_takes_another_session() {
    Setup::of("curator: a session is left", TWO).with(1, &[Fault::Leave]).check();
}

#[test]
fn two_contenders_of_which_one_is_stopped() {
    Setup::of("curator: a client is stopped", TWO).with(1, &[Fault::Stop]).check();
    let wishes = [Wish::WaitsUnrenewed, Wish::Waits];
    Setup::of("curator: a client is stopped, unrenewed", &wishes).with(1, &[Fault::Stop]).check();
}

#[test]
fn two_contenders_whose_driver_does_not_say_what_was_lost() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Leave];
    Setup::of("curator: what is lost has no answer", TWO).with(1, faults).with_silence().check();
}

#[test]
fn two_contenders_of_which_one_only_tries() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Stop, Fault::Cancel];
    Setup::of("curator: one only tries", &[Wish::Waits, Wish::Tries]).with(1, faults).check();
}

#[test]
fn one_contender_alone_to_whom_two_things_happen() {
    Setup::of("curator: alone, two faults", &[Wish::Waits]).with(2, ANY).check();
    Setup::of("curator: alone, two faults without an answer", &[Wish::Waits]).with(2, ANY).with_silence().check();
}

#[test]
fn one_contender_alone_to_whom_three_things_happen() {
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Stop, Fault::Cancel];
    Setup::of("curator: alone, three faults", &[Wish::Waits]).with(3, faults).check();
}

#[test]
fn who_was_first_comes_again_into_a_directory_that_was_removed() {
    let faults = &[Fault::Clear, Fault::Expiry, Fault::Leave, Fault::Loss];
    let alone = Setup::of("curator: alone three times", &[Wish::WaitsThrice]).with(1, faults);
    alone.check();
    Setup { name: "curator: alone three times, silence", ..alone.with_silence() }.check();
    let two = &[Wish::WaitsThrice, Wish::WaitsTwice];
    Setup::of("curator: one is alone, another comes between", two).check();
    Setup::of("curator: the directory is made again", two).with(1, &[Fault::Clear]).check();
}

#[test]
fn a_client_hands_it_from_task_to_task() {
    let alone = Setup::of("curator: three tasks wait", &[Wish::ThreeWait]).with(1, ANY);
    alone.check();
    Setup { name: "curator: three tasks wait, silence", ..alone.with_silence() }.check();
    let two = &[Wish::ThreeWait, Wish::Waits];
    Setup::of("curator: three tasks wait, and another client", two).with(1, &[Fault::Clear]).check();
    for fault in [&[Fault::Expiry], &[Fault::Cancel], &[Fault::Loss], &[Fault::Stop]] {
        Setup::of("curator: three tasks wait, and another client, a fault", two).with(1, fault).check();
    }
}

#[test]
fn three_contenders_in_every_order() {
    Setup::of("curator: three wait", &[Wish::Waits; 3]).check();
}

#[test]
fn a_reader_and_a_writer_in_every_order() {
    const BOTH: &[Wish] = &[READS, WRITES];
    Setup::of("curator: one reads, one writes", BOTH).check();
    Setup::of("curator: one reads, one writes, a fault", BOTH).with(1, ANY).check();
}

#[test]
fn two_readers_and_a_writer_in_every_order() {
    Setup::of("curator: two read, one writes", &[READS, READS, WRITES]).check();
}

#[test]
fn two_writers_in_every_order() {
    let faults = &[Fault::Expiry, Fault::Loss, Fault::Cancel];
    Setup::of("curator: two write", &[WRITES; 2]).with(1, faults).check();
}

#[test]
fn one_permit_alone_to_which_two_things_happen() {
    for fault in [&[Fault::Loss], &[Fault::Cancel], &[Fault::Expiry], &[Fault::Stop], &[Fault::Leave]] {
        Setup::of("curator: a permit alone", &[PERMIT]).with(1, fault).check();
    }
    let faults = &[Fault::Loss, Fault::Expiry, Fault::Cancel];
    Setup::of("curator: a permit alone, two faults", &[PERMIT]).with(2, faults).check();
}

#[test]
fn two_want_a_permit_and_there_is_one() {
    Setup::of("curator: two want the one permit", &[PERMIT; 2]).check();
    let wishes = [PERMIT, TRIES_PERMIT];
    Setup::of("curator: one waits for the one permit, one tries", &wishes).check();
    Setup::of("curator: two try for the one permit", &[TRIES_PERMIT; 2]).check();
}

#[test]
fn two_want_a_permit_and_one_of_them_fails() {
    for fault in [&[Fault::Loss], &[Fault::Cancel]] {
        Setup::of("curator: two want the one permit, a fault", &[PERMIT; 2]).with(1, fault).check();
    }
}

#[test]
fn one_permit_of_kazoos_alone_to_which_something_happens() {
    for fault in [&[Fault::Loss], &[Fault::Cancel], &[Fault::Expiry], &[Fault::Stop], &[Fault::Leave]] {
        Setup::of("kazoo: a permit alone", &[Wish::WaitsForKazoos]).with(1, fault).check();
    }
}

#[test]
fn two_want_a_permit_of_kazoos_and_there_is_one() {
    Setup::of("kazoo: one waits for the only permit, one tries", &[Wish::WaitsForKazoos, Wish::TriesKazoos]).check();
    Setup::of("kazoo: two want the only permit", &[Wish::WaitsForKazoos; 2]).check();
}

const MEET: &[Wish] = &[Wish::Meets; 2];

#[test]
fn two_parties_in_every_order() {
    Setup::of("curator: two meet", MEET).check();
    Setup::of("curator: one waits, one tries to pass", &[Wish::Meets, Wish::TriesToMeet]).check();
}

#[test]
fn two_parties_of_which_one_gives_up() {
    Setup::of("curator: two meet, one gives up", MEET).with(1, &[Fault::Cancel]).check();
}

#[test]
fn one_waits_for_a_latch_and_whatever_goes_wrong() {
    Setup::of("curator: one waits for a latch, a fault", &[Wish::WaitsForLatch]).with(1, ANY).check();
    let silent = Setup::of("curator: one waits for a latch, what is lost has no answer", &[Wish::WaitsForLatch]);
    silent.with(1, &[Fault::Loss, Fault::Expiry]).with_silence().check();
}

#[test]
fn whoever_counts_down_counts_once_however_often_it_asks() {
    // One alone leaves something to count: what it counts too often shows.
    let plays = [(1, 2, Grain::Writes), (2, 0, Grain::Requests), (2, 2, Grain::Writes), (3, 1, Grain::Writes)];
    for (counters, losses, grain) in plays {
        let states = count_down(counters, losses, grain, Server::new());
        println!("curator: {counters} count down, {losses} answers lost: {states} states");
    }
}
