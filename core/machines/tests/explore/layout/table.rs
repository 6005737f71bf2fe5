//! Locks that are rows of another library's table, as the layout `shedlock` has them; those of `int_lock` are deleted
//! where these end.

use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::protocol::{Arg, AttemptId, InboxId, Layout as _, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::stores::postgres::layouts::shedlock;
use lockwright_machines::time::{StoreTime, Time};

use super::{Around, Checked, Record, name_of};
use crate::process::process_of;
use crate::view::{Mix, View};

/// The row as it is meant.
pub type TableRecord = Seeded<NO_BUG>;

pub const NO_BUG: u8 = 0;
/// A request is executed however late it comes.
pub const RUNS_LATE: u8 = 1;
/// A lease is ended, whoever holds it.
pub const ENDS_ANYBODYS: u8 = 2;
/// Since when somebody holds is what the clock says, also where that stands still.
pub const REPEATS_TOKENS: u8 = 3;

/// What a column may round away, which is asked for more than is needed.
const ROUNDED: Duration = Duration::from_millis(1);

/// The row, with a bug that the explorer has to find.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const BUG: u8> {
    owner: Option<AttemptId>,
    until: StoreTime,
    since: u64,
}

/// A request, and what is read in it.
#[derive(Clone, Debug)]
pub struct Call {
    name: &'static str,
    owner: AttemptId,
    ttl: Duration,
    not_after: StoreTime,
}

impl<const BUG: u8> Seeded<BUG> {
    fn is(&self, owner: AttemptId, now: StoreTime) -> bool {
        self.owner == Some(owner) && self.until > now
    }

    fn acquire(&mut self, call: &Call, now: StoreTime) -> u8 {
        if now > call.not_after && BUG != RUNS_LATE {
            return 2;
        }
        if self.owner != Some(call.owner) {
            if self.until > now {
                return 0;
            }
            if BUG != REPEATS_TOKENS {
                self.since += 1;
            }
            self.owner = Some(call.owner);
        }
        self.until = self.until.max(now.after(call.ttl));
        1
    }

    fn renew(&mut self, call: &Call, now: StoreTime) -> u8 {
        let is_its = self.is(call.owner, now);
        if is_its {
            self.until = self.until.max(now.after(call.ttl));
        }
        is_its.into()
    }

    fn release(&mut self, call: &Call, now: StoreTime) -> u8 {
        let is_its = self.is(call.owner, now) || BUG == ENDS_ANYBODYS;
        if is_its {
            self.until = now;
        }
        is_its.into()
    }
}

impl<const BUG: u8> Record for Seeded<BUG> {
    type Call = Call;

    const BLOCK: u64 = 1;

    fn machine() -> Box<dyn Protocol> {
        shedlock::layout("").protocol("L".into())
    }

    fn read(request: &Request) -> Option<Call> {
        let [Arg::Text(owner), rest @ ..] = request.args.as_slice() else { return None };
        let number = |at: usize| match rest.get(at) {
            Some(Arg::Int(number)) => Some(*number),
            _ => None,
        };
        let ttl = Duration::from_micros(number(0).unwrap_or(0) as u64).saturating_sub(ROUNDED);
        let owner = AttemptId(u128::from_str_radix(owner.split('\t').next()?, 16).ok()?);
        Some(Call { name: request.call.name, owner, ttl, not_after: StoreTime(number(1).unwrap_or(i64::MAX)) })
    }

    fn run(&mut self, call: &Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let now = around.now;
        let did = match call.name {
            "acquire" => self.acquire(call, now),
            "renew" => self.renew(call, now),
            "release" => self.release(call, now),
            other => panic!("{other} is no call of the layout"),
        };
        let owner = self.owner.map_or(String::new(), |owner| format!("{owner}\tcard"));
        let (left, since) = (self.until.micros_since(now).to_string(), self.since.to_string());
        let told = [now.0.to_string(), did.to_string(), owner, left, since];
        (Reply::List(told.map(Reply::Text).into()), Vec::new())
    }

    fn renews(call: &Call) -> Option<Duration> {
        (call.name == "renew").then_some(call.ttl)
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        self.owner.map(|owner| (owner, self.until)).into_iter()
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        std::iter::empty()
    }

    fn last(&self) -> u64 {
        self.since
    }

    fn check(&self, before: &Self, call: &Call, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, .. } = *around;
        let Some(owner) = self.owner else { return Ok(()) };
        if let Some(old) = before.owner.filter(|_| before.until > now) {
            let gives_back = call.name == "release" && call.owner == old;
            if !gives_back && (old != owner || self.until < before.until) {
                return Err(format!("{} ends the live lease of {}", Self::explain(call), name_of(old)));
            }
        }
        if before.owner != self.owner && self.since <= top {
            return Err(format!("{} is granted token {} but {top} was used already", name_of(owner), self.since));
        }
        Ok(())
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        (self.owner.is_some(), view.ahead_at_store(self.until), view.token(self.since)).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        if let Some(owner) = self.owner.filter(|owner| process_of(*owner) == client) {
            view.attempt(owner).hash(state);
        }
    }

    fn fingerprint_call(call: &Call, sent: Time, view: &View, state: &mut Mix) {
        (call.name, call.ttl, view.ago(sent), view.attempt(call.owner)).hash(state);
        if call.name == "acquire" {
            let late = call.not_after < StoreTime((view.now / 1000) as i64);
            (late, view.ahead_at_store(call.not_after)).hash(state);
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        let [now, did, _, left, since] = numbers(reply);
        did.hash(state);
        if op == Op::Acquire {
            (view.token(since as u64), view.ago(sent), view.span(left.max(0))).hash(state);
        }
        if op == Op::Renew {
            view.ago(sent).hash(state);
        }
        if dated || did == 2 {
            view.ago_at_store(StoreTime(now)).hash(state);
        }
        (left <= 0).hash(state);
    }

    fn explain(call: &Call) -> String {
        format!("{} {}", call.name, name_of(call.owner))
    }

    fn explain_reply(reply: &Reply, tick: i64, _: i64) -> String {
        let [_, did, _, left, _] = numbers(reply);
        format!("{did}, for {} ticks", left as f64 / tick as f64)
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        self.owner.map_or("nobody".into(), |owner| {
            format!("{} for {} ticks", name_of(owner), self.until.micros_since(now) as f64 / tick as f64)
        })
    }
}

/// The values of a reply, 0 for what is no number.
fn numbers(reply: &Reply) -> [i64; 5] {
    let Reply::List(values) = reply else { panic!("{reply:?} is no row") };
    std::array::from_fn(|at| match values.get(at) {
        Some(Reply::Text(text)) => text.parse().unwrap_or(0),
        _ => 0,
    })
}
