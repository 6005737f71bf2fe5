//! The layout `native`: its model of a store is the shipped reference semantics.

use std::cmp::Ordering;
use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::cell::Cell;
use lockwright_machines::lock_cell::{Acquire, BLOCK, Claimant, LockCell, Place};
use lockwright_machines::native_machine::{Calls, NativeMachine, OwnCalls, Procedure};
use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::rank::{AGE, Rank};
use lockwright_machines::relative::Relative;
use lockwright_machines::time::{StoreTime, Time};

use super::line::Queued;
use super::{Around, Checked, Record, name_of, run_cell};
use crate::process::process_of;
use crate::view::{Mix, View};

static CALLS: Calls = Calls::of_cell();
static OWN: OwnCalls = OwnCalls::of_cell();

/// The record as it is to be.
pub type NativeRecord = Seeded<NO_BUG>;

/// The same for tasks that have ranks.
pub type RankedRecord = Seeded<RANKED>;

/// The record, with a bug that the explorer has to find.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const BUG: u8> {
    cell: LockCell,
    line: Queued,
}

pub const NO_BUG: u8 = 0;
/// No bug either, for whoever has a rank: since when the others wait makes a difference.
pub const RANKED: u8 = 3;
/// A request is executed however late it comes.
pub const RUNS_LATE: u8 = 1;
/// A lease counts as run out a tick early.
pub const ENDS_EARLY: u8 = 2;

impl<const BUG: u8> Seeded<BUG> {
    /// The call as the bug has it run.
    fn seeded(&mut self, call: &Procedure, now: StoreTime) -> Procedure {
        if BUG == ENDS_EARLY {
            self.cell.hold.take_if(|hold| hold.expires <= now.after(Duration::from_secs(1)));
        }
        match call {
            Procedure::Acquire(ask) if BUG == RUNS_LATE => {
                Procedure::Acquire(Acquire { not_after: StoreTime(i64::MAX), ..ask.clone() })
            }
            _ => call.clone(),
        }
    }
}

/// What decides whose turn it is.
struct Turn {
    rank: Rank,
    since: StoreTime,
    /// In the order of arrival.
    at: usize,
}

impl Turn {
    /// That of somebody who waits, or comes with this call.
    fn of<const BUG: u8>(before: &Seeded<BUG>, attempt: AttemptId, call: &Procedure, now: StoreTime) -> Self {
        let waits = |place: &&Place| place.waiter.owner.attempt == attempt;
        match (before.line.0.iter().find(waits), call) {
            (Some(place), _) => {
                let at = before.line().position(|waiter| waiter == attempt).unwrap_or_default();
                Turn { rank: place.rank, since: place.since, at }
            }
            (None, Procedure::Acquire(ask)) => Turn { rank: ask.rank, since: now, at: usize::MAX },
            (None, _) => Turn { rank: Rank::LOWEST, since: now, at: usize::MAX },
        }
    }

    fn comes_before(&self, other: &Self) -> bool {
        let lead = |higher: &Self, lower: &Self| AGE * u32::from(higher.rank.get() - lower.rank.get());
        match self.rank.cmp(&other.rank) {
            Ordering::Equal => self.at < other.at,
            Ordering::Greater => self.since <= other.since.after(lead(self, other)),
            Ordering::Less => self.since.after(lead(other, self)) < other.since,
        }
    }
}

impl<const BUG: u8> Record for Seeded<BUG> {
    type Call = Procedure;

    const BLOCK: u64 = BLOCK;

    fn machine() -> Box<dyn Protocol> {
        Box::new(NativeMachine::new(&CALLS, "L".into(), true).with(&OWN))
    }

    fn read(request: &Request) -> Option<Procedure> {
        LockCell::read(request)
    }

    fn run(&mut self, call: &Procedure, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let call = self.seeded(call, around.now);
        run_cell(&mut self.cell, &mut self.line, call, around)
    }

    fn renews(call: &Procedure) -> Option<Duration> {
        match call {
            Procedure::Renew(_, ttl) => Some(*ttl),
            _ => None,
        }
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.cell.hold.as_ref().map(|hold| (hold.owner.attempt, hold.expires)).into_iter()
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.line.0.iter().map(|place| place.waiter.owner.attempt)
    }

    fn last(&self) -> u64 {
        self.cell.last
    }

    fn check(&self, before: &Self, call: &Procedure, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, alive, .. } = *around;
        let gives_back = |owner: &Claimant| match call {
            Procedure::Release(by, _) => by == owner,
            Procedure::Undo(by, prev) => by == owner || prev.as_ref() == Some(owner),
            Procedure::Acquire(ask) => ask.prev.as_ref().is_some_and(|(prev, _)| prev == owner),
            Procedure::Pass(pass) => pass.from == *owner,
            _ => false,
        };
        let old = before.cell.hold.as_ref();
        let new = self.cell.hold.as_ref();
        if let Some(old) = old.filter(|old| old.expires > now) {
            match new {
                Some(new) if new.owner == old.owner && new.expires < old.expires => {
                    return Err(format!(
                        "{} shortens the lease of {}",
                        Self::explain(call),
                        name_of(old.owner.attempt)
                    ));
                }
                Some(new) if new.owner == old.owner => {}
                _ if gives_back(&old.owner) => {}
                _ => {
                    let whose = name_of(old.owner.attempt);
                    return Err(format!("{} ends the live lease of {whose}", Self::explain(call)));
                }
            }
        }
        let fresh = new.filter(|new| old.is_none_or(|old| old.owner != new.owner || old.first != new.first));
        let Some(new) = fresh else { return Ok(()) };
        let to = name_of(new.owner.attempt);
        if new.first <= top {
            return Err(format!("{to} is granted token {} but {top} was used already", new.first));
        }
        let longest = match call {
            Procedure::Acquire(ask) if ask.asker.owner == new.owner => ask.ttl,
            Procedure::Pass(pass) => pass.ttl,
            _ => new.owner.claim,
        };
        if new.expires > now.after(longest) {
            return Err(format!("{to} is granted the lock for too long"));
        }
        // It goes past everybody who waits, as if its holder had not changed; or that one did not, and comes too late.
        if matches!(call, Procedure::Pass(_)) || old.is_some_and(|old| old.owner == new.owner) {
            return Ok(());
        }
        let place = |attempt| before.line().position(|waiter| waiter == attempt);
        let mine = Turn::of(before, new.owner.attempt, call, now);
        // Whoever lets a claim run out without a word loses the places of its whole process.
        let forfeit = old.filter(|old| old.claimed && old.expires <= now).map(|old| old.owner.inbox);
        let stays = |place: &&Place| Some(place.waiter.owner.inbox) != forfeit;
        // Who could not be told was passed over, and may have come again.
        for Place { waiter, .. } in self.line.0.iter().filter(stays).filter(|place| alive(place.waiter.owner.inbox)) {
            let attempt = waiter.owner.attempt;
            if place(attempt).is_some() && Turn::of(before, attempt, call, now).comes_before(&mine) {
                return Err(format!("{to} is granted the lock before {}, whose turn it was", name_of(attempt)));
            }
        }
        let stayed = self.line.0.iter().filter(stays).filter(|place| alive(place.waiter.owner.inbox));
        let kept: Vec<_> = stayed.filter_map(|known| place(known.waiter.owner.attempt)).collect();
        if !kept.is_sorted() {
            return Err("the order of the queue changed".into());
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        if let Some(hold) = &self.cell.hold {
            (view.ahead_at_store(hold.expires), hold.claimed, view.token(hold.first)).hash(state);
        }
        self.line.0.len().hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        let mine = |attempt: AttemptId| process_of(attempt) == client;
        if let Some(hold) = self.cell.hold.as_ref().filter(|hold| mine(hold.owner.attempt)) {
            (1_u8, view.attempt(hold.owner.attempt), hold.owner.claim).hash(state);
        }
        for (at, Place { waiter, rank, since }) in self.line.0.iter().enumerate() {
            if mine(waiter.owner.attempt) {
                let since = (BUG == RANKED).then(|| view.ahead_at_store(since.after(AGE)));
                (2_u8, at, view.attempt(waiter.owner.attempt), waiter.owner.claim, rank, since).hash(state);
            }
        }
    }

    fn fingerprint_call(call: &Procedure, sent: Time, view: &View, state: &mut Mix) {
        match call {
            Procedure::Acquire(ask) => {
                let late = ask.not_after < StoreTime((view.now / 1000) as i64);
                (1_u8, ask.wait, ask.rank, ask.ttl, late, view.ahead_at_store(ask.not_after), view.ago(sent))
                    .hash(state);
                ask.prev.as_ref().map(|(prev, used)| (view.attempt(prev.attempt), view.token(*used))).hash(state);
            }
            Procedure::Renew(_, ttl) => (2_u8, ttl, view.ago(sent)).hash(state),
            Procedure::Release(_, used) => (3_u8, view.token(*used)).hash(state),
            Procedure::Undo(_, prev) => (4_u8, prev.as_ref().map(|prev| view.attempt(prev.attempt))).hash(state),
            Procedure::Pass(pass) => {
                let timed = (!pass.to.owner.is_secret()).then(|| view.ahead_at_store(pass.not_after));
                let (to, from) = (view.attempt(pass.to.owner.attempt), view.attempt(pass.from.attempt));
                (5_u8, to, from, pass.ttl, timed, view.ago(sent)).hash(state);
            }
            other => unreachable!("{other:?} is not explored"),
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::Int(first)) => (view.token(*first as u64), view.ago(sent)).hash(state),
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                at(0).hash(state);
                match at(0) {
                    0 => (view.ago_at_store(StoreTime(at(1))), view.span(at(2)), at(3)).hash(state),
                    1 => (view.lag(sent, StoreTime(at(1))), view.span(at(2)), at(3), at(4)).hash(state),
                    2 => view.ago_at_store(StoreTime(at(1))).hash(state),
                    _ => (view.token(at(1) as u64), at(2), view.ago(sent)).hash(state),
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
                let prev =
                    ask.prev.as_ref().map_or(String::new(), |(prev, _)| format!(" giving back {}", attempt(prev)));
                let how = if ask.wait { "" } else { ", without queueing" };
                format!("acquire {}{prev}{how}", attempt(&ask.asker.owner))
            }
            Procedure::Renew(owner, _) => format!("renew {}", attempt(owner)),
            Procedure::Release(owner, _) => format!("release {}", attempt(owner)),
            Procedure::Undo(owner, None) => format!("undo {}", attempt(owner)),
            Procedure::Undo(owner, Some(prev)) => format!("undo {} and {}", attempt(owner), attempt(prev)),
            Procedure::Pass(pass) => format!("pass {} to {}", attempt(&pass.from), attempt(&pass.to.owner)),
            other => format!("{other:?}"),
        }
    }

    fn explain_reply(reply: &Reply, tick: i64, epoch: i64) -> String {
        let ticks = |micros: &Reply| match micros {
            Reply::Int(us) => *us / tick,
            _ => 0,
        };
        match reply {
            Reply::List(list) => match (&list[0], &list[1..]) {
                (Reply::Int(0), [_, left, ..]) => format!("held for {} ticks", ticks(left)),
                (Reply::Int(1), [at, left, Reply::Int(position), ..]) => {
                    let at = ticks(at) - epoch;
                    format!("queued at tick {at}, {position} ahead, held for {} ticks", ticks(left))
                }
                (Reply::Int(2), _) => "late".into(),
                _ => format!("{reply:?}"),
            },
            other => format!("{other:?}"),
        }
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        let holder = self.cell.hold.as_ref().map_or("nobody".into(), |hold| {
            let left = hold.expires.micros_since(now) as f64 / tick as f64;
            format!("{} for {left} ticks{}", name_of(hold.owner.attempt), if hold.claimed { ", claim" } else { "" })
        });
        let line: Vec<String> = self.line().map(name_of).collect();
        format!("{holder}; queue [{}]", line.join(" "))
    }
}
