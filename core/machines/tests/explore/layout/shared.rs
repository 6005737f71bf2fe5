//! Read/write locks and semaphores: the model of a store is the shipped reference semantics. Of writers alone there is
//! one at a time, so that what must hold of any lock must hold of them; of all together, what they hold never adds up
//! to more than there is.

use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::cell::Cell;
use lockwright_machines::lock_cell::Claimant;
use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::share::{Primitive, Share};
use lockwright_machines::shared_cell::{Acquire, Holder, SharedCell, SharedInMemory};
use lockwright_machines::shared_machine::{Procedure, SharedCalls, SharedMachine};
use lockwright_machines::time::{StoreTime, Time};

use super::{Around, Checked, Record, Role, name_of, run_cell};
use crate::process::process_of;
use crate::view::{Mix, View};

static CALLS: SharedCalls = SharedCalls::of_cell();

/// The record as it is to be.
pub type SharedRecord = Seeded<0>;

/// One that executes a request however late it comes.
pub const RUNS_LATE: u8 = 1;
/// One that lets in whoever asks, as long as anything is free.
pub const COUNTS_NOBODY: u8 = 2;

/// The record, or one with a fault.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const FAULT: u8> {
    cell: SharedCell,
    kept: SharedInMemory,
}

impl<const FAULT: u8> Seeded<FAULT> {
    fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.kept.holders.values()
    }

    /// The request as this record takes it.
    fn taken(&self, call: &Procedure) -> Procedure {
        match (FAULT, call.clone()) {
            (RUNS_LATE, Procedure::Acquire(ask)) => {
                Procedure::Acquire(Acquire { not_after: StoreTime(i64::MAX), ..ask })
            }
            (COUNTS_NOBODY, Procedure::Acquire(mut ask)) => {
                ask.asker.units = 1;
                Procedure::Acquire(ask)
            }
            (_, call) => call,
        }
    }
}

fn speak(share: Share) -> Box<dyn Protocol> {
    Box::new(SharedMachine::new(&CALLS, "L".into(), share, true))
}

fn permits(take: u32, in_order: bool) -> Share {
    Share { primitive: Primitive::Semaphore, units: take, capacity: 2, in_order }
}

impl<const FAULT: u8> Record for Seeded<FAULT> {
    type Call = Procedure;

    const BLOCK: u64 = 1;

    fn machine() -> Box<dyn Protocol> {
        speak(Share::WRITE)
    }

    fn speaker(role: Role) -> fn() -> Box<dyn Protocol> {
        match role {
            Role::Sole | Role::Writer | Role::Waiter | Role::Party => Self::machine,
            Role::Reader => || speak(Share::READ),
            Role::One => || speak(permits(1, false)),
            Role::Two => || speak(permits(2, false)),
            Role::TwoInOrder => || speak(permits(2, true)),
        }
    }

    fn resize(units: u32) -> Option<Procedure> {
        Some(Procedure::Resize(units))
    }

    fn read(request: &Request) -> Option<Procedure> {
        SharedCell::read(request)
    }

    fn run(&mut self, call: &Procedure, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let call = self.taken(call);
        run_cell(&mut self.cell, &mut self.kept, call, around)
    }

    fn renews(call: &Procedure) -> Option<Duration> {
        match call {
            Procedure::Renew(_, ttl) => Some(*ttl),
            _ => None,
        }
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.holders().map(|holder| (holder.owner.attempt, holder.expires))
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.kept.line.iter().map(|seeker| seeker.who.owner.attempt)
    }

    fn last(&self) -> u64 {
        self.cell.last
    }

    fn check(&self, before: &Self, call: &Procedure, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, alive, .. } = *around;
        let explained = || Self::explain(call);
        let units =
            |holders: &mut dyn Iterator<Item = &Holder>| holders.map(|holder| u64::from(holder.units)).sum::<u64>();
        let live = units(&mut self.holders().filter(|holder| holder.expires > now));
        // Who held when it shrank goes on, and may renew what ran out and was not noticed.
        if live > u64::from(self.cell.capacity) && self.cell.used > before.cell.used {
            return Err(format!("{live} of {} are held after {}", self.cell.capacity, explained()));
        }
        if units(&mut self.holders()) != u64::from(self.cell.used) {
            return Err(format!("{} miscounts: {} are said to be used", explained(), self.cell.used));
        }
        let gives_back = |owner: &Claimant| matches!(call, Procedure::Release(by) | Procedure::Undo(by) if by == owner);
        for old in before.holders().filter(|old| old.expires > now && !gives_back(&old.owner)) {
            let whose = name_of(old.owner.attempt);
            let Some(new) = self.kept.holders.get(&old.owner.attempt) else {
                return Err(format!("{} ends the live lease of {whose}", explained()));
            };
            if new.expires < old.expires {
                return Err(format!("{} shortens the lease of {whose}", explained()));
            }
            let asked = matches!(call, Procedure::Change(change) if change.owner == old.owner);
            if !asked && (new.units, new.token) != (old.units, old.token) {
                return Err(format!("{} changes what {whose} has", explained()));
            }
            if new.units > old.units && new.token <= before.cell.last {
                return Err(format!("{whose} has more under token {}, which is no new one", new.token));
            }
        }
        let is_new = |holder: &&Holder| {
            before.kept.holders.get(&holder.owner.attempt).is_none_or(|old| old.token != holder.token)
        };
        self.holders().filter(is_new).try_for_each(|new| self.check_grant(before, call, new, (now, top, alive)))
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if self.cell.used > 0 {
            view.ahead_at_store(self.cell.soonest).hash(state);
        }
        (self.kept.line.len(), self.cell.capacity, self.cell.resized).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        let mine = |attempt: AttemptId| process_of(attempt) == client;
        for holder in self.holders().filter(|holder| mine(holder.owner.attempt)) {
            (1_u8, view.attempt(holder.owner.attempt), holder.owner.claim, holder.units).hash(state);
            (view.ahead_at_store(holder.expires), holder.claimed, view.token(holder.token)).hash(state);
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
            Procedure::Change(change) => {
                (5_u8, change.units, view.token(change.token), change.ttl).hash(state);
                (view.ahead_at_store(change.not_after), view.ago(sent)).hash(state);
            }
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
            (Op::Renew, Reply::List(list)) => match list.as_slice() {
                [Reply::Int(1), Reply::Int(token)] => (1_u8, view.token(*token as u64), view.ago(sent)).hash(state),
                [Reply::Int(2), Reply::Int(at)] => (2_u8, view.ago_at_store(StoreTime(*at))).hash(state),
                _ => (3_u8, view.ago(sent)).hash(state),
            },
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
            Procedure::Change(change) => format!("change {} to {} units", attempt(&change.owner), change.units),
            other => format!("{other:?}"),
        }
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        let shown = |holder: &Holder| {
            let Holder { owner, units, claimed, .. } = holder;
            let left = holder.expires.micros_since(now) as f64 / tick as f64;
            format!("{} has {units} for {left} ticks{}", name_of(owner.attempt), if *claimed { ", claim" } else { "" })
        };
        let holders: Vec<String> = self.holders().map(shown).collect();
        let line: Vec<String> = self.line().map(name_of).collect();
        format!("{}; queue [{}]", if holders.is_empty() { "nobody".into() } else { holders.join("; ") }, line.join(" "))
    }
}

impl<const FAULT: u8> Seeded<FAULT> {
    /// Whether `new` may be granted what it is by `call`.
    fn check_grant(
        &self,
        before: &Self,
        call: &Procedure,
        new: &Holder,
        (now, top, alive): (StoreTime, u64, &dyn Fn(InboxId) -> bool),
    ) -> Checked<()> {
        let to = name_of(new.owner.attempt);
        if new.token <= top {
            return Err(format!("{to} is granted token {} but {top} was used already", new.token));
        }
        let longest = match call {
            Procedure::Acquire(ask) if ask.asker.who.owner == new.owner => ask.ttl,
            // What changed was held already; that it is not shortened is checked.
            Procedure::Change(change) if change.owner == new.owner => return Ok(()),
            _ => new.owner.claim,
        };
        if new.expires > now.after(longest) {
            return Err(format!("{to} is granted the lock for too long"));
        }
        // It did not change, and comes too late.
        if before.holders().any(|old| old.owner == new.owner) {
            return Ok(());
        }
        let place = |attempt| before.line().position(|waiter| waiter == attempt);
        let mine = place(new.owner.attempt);
        // Whoever lets a claim run out without a word loses the places of its whole process.
        let forfeits =
            |inbox: InboxId| before.holders().any(|old| old.claimed && old.expires <= now && old.owner.inbox == inbox);
        // Who could not be told was passed over, and may have come again; who needs more than is free may be, unless in
        // order.
        let stayed = self.kept.line.iter().filter(|seeker| seeker.in_order).map(|seeker| &seeker.who.owner);
        for owner in stayed.filter(|owner| !forfeits(owner.inbox) && alive(owner.inbox)) {
            if place(owner.attempt).is_some_and(|place| mine.is_none_or(|mine| place < mine)) {
                return Err(format!("{to} is granted the lock before {}, who came first", name_of(owner.attempt)));
            }
        }
        Ok(())
    }
}
