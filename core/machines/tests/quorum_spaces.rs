//! Everything that can happen to two clients whose lock lies on three nodes: the shipped machine, with nodes that keep
//! the layout `native` as its cell does, forget what they granted, and are not always heard.
//!
//! What must not be is that two believe to hold at once, and that whoever believes so may be followed by another before
//! its belief ends, even if every node's clock runs 1 % fast.

#![allow(unreachable_pub, dead_code, reason = "the modules are shared, and each test uses its part")]

#[path = "quorum/node.rs"]
mod node;
mod process;
#[path = "explore/processor.rs"]
mod processor;
#[path = "curator/search.rs"]
mod search;
#[path = "quorum/setup.rs"]
mod setup;
#[path = "explore/view.rs"]
mod view;
#[path = "quorum/world.rs"]
mod world;

use setup::{Fault, Setup};

#[test]
fn two_clients_in_every_order() {
    Setup::of("quorum: two wait").in_order().check();
}

#[test]
fn two_clients_and_a_message_that_is_lost() {
    Setup::of("quorum: a message is lost").in_order().with(&[(Fault::Loss, 1)]).check();
}

#[test]
fn two_clients_and_a_node_that_is_restarted() {
    Setup::of("quorum: a node is restarted").in_order().waiting(1).with(&[(Fault::Restart, 1)]).check();
}

#[test]
fn two_clients_and_a_node_that_is_emptied_while_it_answers() {
    Setup::of("quorum: a node is emptied").in_order().waiting(1).with(&[(Fault::Flush, 1)]).check();
}

#[test]
fn two_clients_of_which_one_gives_up() {
    Setup::of("quorum: one gives up").in_order().with(&[(Fault::Cancel, 1)]).check();
}

#[test]
fn two_clients_whose_lock_has_no_tokens() {
    Setup::of("tokenless quorum: two wait").in_order().without_tokens().check();
}

#[test]
fn two_clients_and_a_try_without_a_token_that_is_executed_at_any_time() {
    let loss = &[(Fault::Loss, 1)];
    Setup::of("tokenless quorum: a message is lost").in_order().without_tokens().waiting(1).with(loss).check();
}

#[test]
fn two_clients_without_tokens_and_a_node_that_is_restarted() {
    let restart = &[(Fault::Restart, 1)];
    Setup::of("tokenless quorum: a node is restarted").in_order().without_tokens().waiting(1).with(restart).check();
}

#[test]
fn two_clients_without_tokens_and_a_node_that_is_emptied_while_it_answers() {
    let flush = &[(Fault::Flush, 1)];
    Setup::of("tokenless quorum: a node is emptied").in_order().without_tokens().waiting(1).with(flush).check();
}

/// The case that `docs/redlock.md` states: nothing can be done about it without another clock.
#[test]
fn a_node_whose_clock_is_set_forward_may_let_a_second_one_in() {
    let found = Setup::of("quorum: a clock is set forward").with(&[(Fault::Step, 1)]).explored();
    let Err(way) = found else { panic!("no way to a second holder was found") };
    assert!(way.starts_with("another may hold it") && way.contains("Step"), "{way}");
}
