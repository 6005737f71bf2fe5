//! The layout `string` without tokens, whose first request is executed however late it comes.

use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::stores::redis::layouts::string;
use lockwright_machines::stores::redis::layouts::tokenless::TokenlessLock;
use lockwright_machines::time::{StoreTime, Time};

use super::tokenless_store::{TokenlessStore, Words};
use super::{Around, Checked, Record, name_of};
use crate::process::process_of;
use crate::view::{Mix, View};

/// The key as it is meant.
pub type TokenlessRecord = Seeded<NO_BUG>;

pub const NO_BUG: u8 = 0;
/// A first request takes the lock from whoever holds it: `SET` without `NX`.
pub const TAKES_IT: u8 = 1;
/// A release deletes the key, whoever holds it.
pub const DELETES_BLINDLY: u8 = 2;

/// The key, with a bug that the explorer has to find.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const BUG: u8>(TokenlessStore);

/// The machine, as all explorers have it.
pub fn machine() -> Box<dyn Protocol> {
    Box::new(TokenlessLock::new(string::FAMILY.layout(&string::REDIS_PY, "").manner, "L".into()))
}

/// The attempt that an owner is.
pub fn attempt_of(owner: &str) -> AttemptId {
    AttemptId(u128::from_str_radix(owner, 16).expect("an owner of redis-py"))
}

impl<const BUG: u8> Seeded<BUG> {
    fn value(&self) -> Option<(AttemptId, StoreTime)> {
        self.0.value.as_ref().map(|(owner, ends)| (attempt_of(owner), *ends))
    }
}

impl<const BUG: u8> Record for Seeded<BUG> {
    type Call = Words;

    const BLOCK: u64 = 0;

    fn machine() -> Box<dyn Protocol> {
        machine()
    }

    fn read(request: &Request) -> Option<Words> {
        Words::of(request)
    }

    fn run(&mut self, call: &Words, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        if (BUG == TAKES_IT && call.name == "set") || (BUG == DELETES_BLINDLY && call.name == "release") {
            self.0.value = None;
        }
        (self.0.run(call, around.now), Vec::new())
    }

    fn renews(call: &Words) -> Option<Duration> {
        (call.name == "renew").then_some(call.ttl)
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.value().into_iter()
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        std::iter::empty()
    }

    fn last(&self) -> u64 {
        0
    }

    fn check(&self, before: &Self, call: &Words, around: &Around<'_>) -> Checked<()> {
        let Some((owner, ends)) = before.value().filter(|(_, ends)| *ends > around.now) else { return Ok(()) };
        let gives_back = matches!(call.name, "release" | "undo") && attempt_of(&call.owner) == owner;
        match self.value() {
            Some((same, later)) if same == owner && later >= ends => Ok(()),
            Some((same, _)) if same == owner => {
                Err(format!("{} shortens the lease of {}", Self::explain(call), name_of(owner)))
            }
            _ if gives_back => Ok(()),
            _ => Err(format!("{} ends the live lease of {}", Self::explain(call), name_of(owner))),
        }
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        self.value().map(|(_, ends)| view.ahead_at_store(ends)).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        if let Some((owner, _)) = self.value().filter(|(owner, _)| process_of(*owner) == client) {
            view.attempt(owner).hash(state);
        }
    }

    fn fingerprint_call(call: &Words, sent: Time, view: &View, state: &mut Mix) {
        (call.name, call.ttl, view.ago(sent), view.attempt(attempt_of(&call.owner))).hash(state);
        if call.name == "acquire" {
            let late = call.not_after < StoreTime((view.now / 1000) as i64);
            (late, view.ahead_at_store(call.not_after)).hash(state);
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                (at(0), view.span(at(2).max(0) * 1000)).hash(state);
                if dated || at(0) == 2 {
                    view.ago_at_store(StoreTime(at(1))).hash(state);
                }
            }
            (Op::Acquire | Op::Renew, _) => (reply, view.ago(sent)).hash(state),
            _ => reply.hash(state),
        }
    }

    fn explain(call: &Words) -> String {
        format!("{} {}", call.name, name_of(attempt_of(&call.owner)))
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        self.value().map_or("nobody".into(), |(owner, ends)| {
            format!("{} for {} ticks", name_of(owner), ends.micros_since(now) as f64 / tick as f64)
        })
    }
}
