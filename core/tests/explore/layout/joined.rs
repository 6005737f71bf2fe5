//! Joined locks: their model of a store is the reference that the scripts are compared with. All layouts of the family but
//! `getset` keep an owner and an end, in whatever form; so `string` stands for them.

use std::hash::Hash;
use std::time::Duration;

use lockwright::cell::BLOCK;
use lockwright::protocol::{Arg, AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright::stores::redis::layouts::joined::Joined;
use lockwright::stores::redis::layouts::{getset, string};
use lockwright::time::{Relative, StoreTime, Time};

use super::joined_store::{JoinedStore, Way};
use super::{Around, Checked, Record, name_of};
use crate::glue::process_of;
use crate::view::{Mix, View};

/// The record of the layout `string` as it is to be.
pub type StringRecord = Seeded<0, NO_BUG>;
/// The same of `getset`, in milliseconds.
pub type GetsetRecord = Seeded<1000, NO_BUG>;

/// The record of a layout whose numbers count so many microseconds, or which has owners where that is 0, with a bug that the
/// explorer has to find.
#[derive(Clone, Debug)]
pub struct Seeded<const UNIT: i64, const BUG: u8>(JoinedStore);

impl<const UNIT: i64, const BUG: u8> Default for Seeded<UNIT, BUG> {
    fn default() -> Self {
        Seeded(JoinedStore::new(if UNIT == 0 { Way::Owner } else { Way::End(UNIT) }))
    }
}

pub const NO_BUG: u8 = 0;
/// A request is executed however late it comes.
pub const RUNS_LATE: u8 = 1;
/// A release deletes the key, whoever holds it.
pub const DELETES_BLINDLY: u8 = 2;

/// A request, and what is read in it.
#[derive(Clone, Debug)]
pub struct Call {
    request: Request,
    owners: Vec<AttemptId>,
    ttl: Duration,
    not_after: StoreTime,
}

fn attempt(owner: &str) -> AttemptId {
    AttemptId(u128::from_str_radix(owner, 16).expect("an owner in the format of redis-py"))
}

impl<const UNIT: i64, const BUG: u8> Seeded<UNIT, BUG> {
    fn value(&self) -> Option<(AttemptId, StoreTime)> {
        let ends = self.0.value.as_ref()?.ends.expect("ours all end");
        Some((attempt(&self.0.holder().expect("ours are recorded").owner), StoreTime(ends)))
    }
}

impl<const UNIT: i64, const BUG: u8> Record for Seeded<UNIT, BUG> {
    type Call = Call;

    const BLOCK: u64 = BLOCK;

    fn machine() -> Box<dyn Protocol> {
        Box::new(match UNIT {
            0 => Joined::new(&string::FAMILY, &string::REDIS_PY, "L".into()),
            _ => Joined::new(&getset::FAMILY, &getset::MILLISECONDS, "L".into()),
        })
    }

    fn read(request: &Request) -> Option<Call> {
        let owners = request.args.iter().filter_map(|arg| match arg {
            Arg::Text(text) if text.len() == 32 => Some(attempt(text)),
            _ => None,
        });
        let mut numbers = request.args.iter().filter_map(|arg| match arg {
            Arg::Int(number) => Some(*number),
            _ => None,
        });
        let ttl = Duration::from_millis(numbers.next().unwrap_or(0) as u64);
        let not_after = StoreTime(numbers.next().unwrap_or(i64::MAX));
        Some(Call { owners: owners.collect(), request: request.clone(), ttl, not_after })
    }

    fn run(&mut self, call: &Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let mut request = call.request.clone();
        for arg in &mut request.args {
            if BUG == RUNS_LATE && *arg == Arg::Int(call.not_after.0) {
                *arg = Arg::Int(i64::MAX);
            }
        }
        if BUG == DELETES_BLINDLY && request.call.name == "release" {
            self.0.value = None;
        }
        let reply = self.0.run(&request, around.now.0, around.token_floor as i64);
        // No run lasts until it goes, and states are told apart by when something does.
        self.0.record.iter_mut().for_each(|record| record.ends = i64::MAX);
        let reply = match reply {
            Reply::List(mut list) if request.call.batch => list.remove(0),
            reply => reply,
        };
        (reply, Vec::new())
    }

    fn renews(call: &Call) -> Option<Duration> {
        (call.request.call.name == "renew").then_some(call.ttl)
    }

    fn hold(&self) -> Option<(AttemptId, StoreTime)> {
        self.value()
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        std::iter::empty()
    }

    fn last(&self) -> u64 {
        self.0.record.as_ref().map_or(0, |record| record.first as u64 + BLOCK - 1)
    }

    fn check(&self, before: &Self, call: &Call, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, .. } = *around;
        let old = before.value().filter(|(_, ends)| *ends > now);
        let new = self.value();
        if let Some((owner, ends)) = old {
            let gives_back = matches!(call.request.call.name, "release" | "undo") && call.owners.contains(&owner);
            match new {
                Some((same, later)) if same == owner && later < ends => {
                    return Err(format!("{} shortens the lease of {}", Self::explain(call), name_of(owner)));
                }
                Some((same, _)) if same == owner => {}
                _ if gives_back => {}
                _ => return Err(format!("{} ends the live lease of {}", Self::explain(call), name_of(owner))),
            }
        }
        let Some((owner, ends)) = new.filter(|(owner, _)| old.is_none_or(|(before, _)| before != *owner)) else {
            return Ok(());
        };
        let to = name_of(owner);
        let first = self.0.holder().map_or(0, |record| record.first as u64);
        if first <= top {
            return Err(format!("{to} is granted token {first} but {top} was used already"));
        }
        if ends > now.after(call.ttl + 2 * Duration::from_micros(UNIT as u64)) {
            return Err(format!("{to} is granted the lock for too long"));
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if let Some((_, ends)) = self.value() {
            view.ahead_at_store(ends).hash(state);
        }
        self.0.record.as_ref().map(|record| view.token(record.first as u64)).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        if let Some((owner, _)) = self.value().filter(|(owner, _)| process_of(*owner) == client) {
            view.attempt(owner).hash(state);
        }
    }

    fn fingerprint_call(call: &Call, sent: Time, view: &View, state: &mut Mix) {
        call.request.call.name.hash(state);
        match call.request.call.name {
            "acquire" => {
                let late = call.not_after < StoreTime((view.now / 1000) as i64);
                (call.ttl, late, view.ahead_at_store(call.not_after), view.ago(sent)).hash(state);
            }
            "renew" => (call.ttl, view.ago(sent)).hash(state),
            _ => {}
        }
        call.owners.iter().for_each(|owner| view.attempt(*owner).hash(state));
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::Int(first)) => (view.token(*first as u64), view.ago(sent)).hash(state),
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                (at(0), view.span(at(2) * 1000)).hash(state);
                if dated || at(0) == 2 {
                    view.ago_at_store(StoreTime(at(1))).hash(state);
                }
            }
            (Op::Renew, _) => (reply, view.ago(sent)).hash(state),
            _ => reply.hash(state),
        }
    }

    fn explain(call: &Call) -> String {
        let owners: Vec<_> = call.owners.iter().map(|owner| name_of(*owner)).collect();
        format!("{} {}", call.request.call.name, owners.join(" and "))
    }

    fn explain_reply(reply: &Reply, tick: i64, _: i64) -> String {
        match reply {
            Reply::List(list) => match list.as_slice() {
                [Reply::Int(0), _, Reply::Int(left), _] => format!("held for {} ticks", left * 1000 / tick),
                [Reply::Int(2), ..] => "late".into(),
                _ => format!("{reply:?}"),
            },
            other => format!("{other:?}"),
        }
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        self.value().map_or("nobody".into(), |(owner, ends)| {
            format!("{} for {} ticks", name_of(owner), ends.micros_since(now) as f64 / tick as f64)
        })
    }
}
