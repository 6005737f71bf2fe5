//! Writers of a read/write lock: its model of a store is the shipped reference semantics. Of writers there is one at a time, so
//! that what must hold of any lock must hold of them.

use std::hash::Hash;
use std::time::Duration;

use lockwright::cell::{Claimant, Surroundings};
use lockwright::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright::shared::{Procedure, Share, Shared, SharedCalls};
use lockwright::shared_cell::{Acquire, Holder, Kept, SharedCell};
use lockwright::time::{Relative, StoreTime, Time};

use super::{Around, Checked, Record, name_of};
use crate::glue::process_of;
use crate::view::{Mix, View};

static CALLS: SharedCalls = SharedCalls::of_cell();

/// The record as it is to be.
pub type SharedRecord = Seeded<false>;

/// The record, or one that executes a request however late it comes.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const RUNS_LATE: bool> {
    cell: SharedCell,
    kept: Kept,
}

impl<const RUNS_LATE: bool> Seeded<RUNS_LATE> {
    fn holder(&self) -> Option<&Holder> {
        self.kept.holders.values().next()
    }
}

impl<const RUNS_LATE: bool> Record for Seeded<RUNS_LATE> {
    type Call = Procedure;

    const BLOCK: u64 = 1;

    fn machine() -> Box<dyn Protocol> {
        Box::new(Shared::new(&CALLS, "L".into(), Share::WRITE, true))
    }

    fn read(request: &Request) -> Option<Procedure> {
        Procedure::read(request)
    }

    fn run(&mut self, call: &Procedure, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let Around { now, token_floor, alive, .. } = *around;
        let mut env = Surroundings { now, token_floor, alive, pushes: Vec::new() };
        let call = match call {
            Procedure::Acquire(ask) if RUNS_LATE => {
                &Procedure::Acquire(Acquire { not_after: StoreTime(i64::MAX), ..ask.clone() })
            }
            call => call,
        };
        let Ok(reply) = call.run(&mut self.cell, &mut self.kept, &mut env);
        (reply, env.pushes)
    }

    fn renews(call: &Procedure) -> Option<Duration> {
        match call {
            Procedure::Renew(_, ttl) => Some(*ttl),
            _ => None,
        }
    }

    fn hold(&self) -> Option<(AttemptId, StoreTime)> {
        self.holder().map(|holder| (holder.owner.attempt, holder.expires))
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.kept.line.iter().map(|seeker| seeker.who.owner.attempt)
    }

    fn last(&self) -> u64 {
        self.cell.last
    }

    fn check(&self, before: &Self, call: &Procedure, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, alive, .. } = *around;
        if self.kept.holders.len() > 1 {
            return Err(format!("{} makes two writers", Self::explain(call)));
        }
        let gives_back = |owner: &Claimant| matches!(call, Procedure::Release(by) | Procedure::Undo(by) if by == owner);
        let (old, new) = (before.holder(), self.holder());
        if let Some(old) = old.filter(|old| old.expires > now && !gives_back(&old.owner)) {
            let whose = name_of(old.owner.attempt);
            match new {
                Some(new) if new.owner != old.owner => {
                    return Err(format!("{} ends the live lease of {whose}", Self::explain(call)));
                }
                Some(new) if new.expires >= old.expires => {}
                _ => return Err(format!("{} shortens the lease of {whose}", Self::explain(call))),
            }
        }
        let Some(new) = new.filter(|new| old.is_none_or(|old| old.token != new.token)) else { return Ok(()) };
        let to = name_of(new.owner.attempt);
        if new.token <= top {
            return Err(format!("{to} is granted token {} but {top} was used already", new.token));
        }
        let longest = match call {
            Procedure::Acquire(ask) if ask.asker.who.owner == new.owner => ask.ttl,
            _ => new.owner.claim,
        };
        if new.expires > now.after(longest) {
            return Err(format!("{to} is granted the lock for too long"));
        }
        let place = |attempt| before.line().position(|waiter| waiter == attempt);
        let mine = place(new.owner.attempt);
        // Whoever lets a claim run out without a word loses the places of its whole process.
        let forfeit = old.filter(|old| old.claimed && old.expires <= now).map(|old| old.owner.inbox);
        // Who could not be told was passed over, and may have come again.
        let stayed = self.kept.line.iter().map(|seeker| &seeker.who.owner);
        for owner in stayed.filter(|owner| Some(owner.inbox) != forfeit && alive(owner.inbox)) {
            if place(owner.attempt).is_some_and(|place| mine.is_none_or(|mine| place < mine)) {
                return Err(format!("{to} is granted the lock before {}, who came first", name_of(owner.attempt)));
            }
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if let Some(holder) = self.holder() {
            (view.ahead_at_store(holder.expires), holder.claimed, view.token(holder.token)).hash(state);
            view.ahead_at_store(self.cell.soonest).hash(state);
        }
        self.kept.line.len().hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        let mine = |attempt: AttemptId| process_of(attempt) == client;
        if let Some(holder) = self.holder().filter(|holder| mine(holder.owner.attempt)) {
            (1_u8, view.attempt(holder.owner.attempt), holder.owner.claim).hash(state);
        }
        for (place, attempt) in self.line().enumerate().filter(|(_, attempt)| mine(*attempt)) {
            (2_u8, place, view.attempt(attempt)).hash(state);
        }
    }

    fn fingerprint_call(call: &Procedure, sent: Time, view: &View, state: &mut Mix) {
        match call {
            Procedure::Acquire(ask) => {
                (1_u8, ask.wait, ask.ttl, view.ahead_at_store(ask.not_after), view.ago(sent)).hash(state);
            }
            Procedure::Renew(_, ttl) => (2_u8, ttl, view.ago(sent)).hash(state),
            Procedure::Release(_) => 3_u8.hash(state),
            Procedure::Undo(_) => 4_u8.hash(state),
            other => unreachable!("{other:?} is not explored"),
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::Int(token)) => (view.token(*token as u64), view.ago(sent)).hash(state),
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                at(0).hash(state);
                match at(0) {
                    0 => (view.ago_at_store(StoreTime(at(1))), view.span(at(2))).hash(state),
                    1 => (view.lag(sent, StoreTime(at(1))), view.span(at(2)), at(3)).hash(state),
                    _ => view.ago_at_store(StoreTime(at(1))).hash(state),
                }
                if dated {
                    view.ago_at_store(StoreTime(at(1))).hash(state);
                }
            }
            (Op::Renew, _) => (reply, view.ago(sent)).hash(state),
            _ => reply.hash(state),
        }
    }

    fn explain(call: &Procedure) -> String {
        let attempt = |claimant: &Claimant| name_of(claimant.attempt);
        match call {
            Procedure::Acquire(ask) => {
                let how = if ask.wait { "" } else { ", without queueing" };
                format!("acquire {}{how}", attempt(&ask.asker.who.owner))
            }
            Procedure::Renew(owner, _) => format!("renew {}", attempt(owner)),
            Procedure::Release(owner) => format!("release {}", attempt(owner)),
            Procedure::Undo(owner) => format!("undo {}", attempt(owner)),
            other => format!("{other:?}"),
        }
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        let holder = self.holder().map_or("nobody".into(), |holder| {
            let left = holder.expires.micros_since(now) as f64 / tick as f64;
            format!("{} for {left} ticks{}", name_of(holder.owner.attempt), if holder.claimed { ", claim" } else { "" })
        });
        let line: Vec<String> = self.line().map(name_of).collect();
        format!("{holder}; queue [{}]", line.join(" "))
    }
}
