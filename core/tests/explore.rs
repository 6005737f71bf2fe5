//! Everything that can happen to two clients, one store and one lock, happens here.
//!
//! The shipped Session, local queue and `native` protocol run against the shipped reference semantics of the store. Every
//! message is its own event: it may be overtaken by any other, and answers may take for ever. A client that is not scheduled
//! while time passes is a paused one. One thing may go wrong. Time has no end: states are the same when they will behave
//! alike, however late they are.
//!
//! In every state: no grant over a live lease, no shortened lease, tokens rise, nobody believes what the store denies, the
//! store serves in order. From every state: a run in which nothing more goes wrong serves everybody and leaves nothing behind,
//! within the ticks that `Setup::bound` allows. `explore_full` visits larger spaces.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

mod glue;
#[path = "explore/layout/mod.rs"]
mod layout;
#[path = "explore/search.rs"]
mod search;
#[path = "explore/setup.rs"]
mod setup;
#[path = "explore/spaces.rs"]
mod spaces;
#[path = "explore/view.rs"]
mod view;
#[path = "explore/world.rs"]
mod world;

use setup::{Setup, Wish};
use spaces::ONE;

#[test]
fn nothing_goes_wrong() {
    Setup::two_clients("nothing goes wrong").check();
}

#[test]
fn one_thing_goes_wrong() {
    Setup::two_clients("one thing goes wrong").with_faults(1).check();
}

#[test]
fn both_may_give_up() {
    let fickle = Wish { may_cancel: true, ..ONE };
    Setup { clients: vec![vec![fickle], vec![fickle]], ..Setup::two_clients("both may give up") }.check();
}

#[test]
fn claims_are_renewed() {
    Setup::claims("claims are renewed").check();
}

#[test]
fn leases_are_not_renewed() {
    Setup { renew: false, ..Setup::two_clients("leases are not renewed") }.check();
}

#[test]
fn two_tasks_take_turns() {
    Setup::yields("two tasks take turns").check();
}

#[test]
fn turns_are_lost_and_given_up() {
    Setup::yields_in_doubt("turns are lost and given up").check();
}

#[test]
fn patience_with_the_store_ends() {
    Setup { store_timeout: 2, ..Setup::two_clients("patience with the store ends") }.check();
}

#[test]
fn three_clients_are_prompt() {
    Setup::three_clients("three prompt clients").check();
}

#[test]
fn three_clients_and_a_pause() {
    Setup::three_clients("three prompt clients, a pause").with_a_pause().check();
}

#[test]
fn three_clients_and_a_fault() {
    Setup::three_clients("three prompt clients, one fault").with_faults(1).check();
}

#[test]
fn holds_are_extended() {
    Setup::extensions("holds are extended").with_faults(1).check();
}
