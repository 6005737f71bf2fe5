//! The protocol of barriers: one machine, and one wire form, for every store that can run a procedure atomically. It is
//! to [`crate::barrier_cell`] what [`crate::native_machine`] is to [`crate::lock_cell`].
//!
//! ```text
//!   arrive  claimant not-after wait ttl-us parties memory-us  ->  [0, now, standing]      too few others, and the asker has no place
//!                                                             |   [1, now, standing]      it has one; a push tells it when it passes
//!                                                             |   [2, now]                late
//!                                                             |   [3, index, generation]  passed
//!                                                             |   [4]                     gone: it gave up before
//!                                                             |   [5, parties]            those who stand there name another number
//!   leave   attempt memory-us                                 ->  1 | [3, index, generation]
//!   look                                                      ->  standing
//! ```
//!
//! To wait is to acquire what a party gets when the last one arrives, and nobody has to give back. While it waits its
//! place is renewed by asking again. Giving up is an undo that may be answered with a grant: that the barrier opened
//! with this party cannot be taken back. Resending any of the requests is safe.
//!
//! Source: own layout, `docs/adr/0024-a-party-at-a-barrier-has-a-lease.md`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::{Arguments, attempt_arg, micros, past_key};
use crate::barrier_cell::{Arrive, Arrived, BarrierCell, BarrierInMemory, BarrierStorage, Passage};
use crate::cell::{Cell, Runs};
use crate::error::{Error, Kind};
use crate::gate::{BarrierPlan, MOST_PARTIES, gone_on};
use crate::lease::{BARRIER, Inspection};
use crate::lock_cell::{Claimant, Surroundings};
use crate::protocol::{
    Arg, AttemptId, Call, Grant, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Term,
    Traits, Verdict, Wait,
};
use crate::replies::{answered, duration, int, nonsense, numbers, operation, refusal};
use crate::time::StoreTime;
use crate::token::Tokens;

/// A place is renewed after this part of its ttl.
const RENEWALS: u32 = 3;

/// For how many ttls what became of a party is remembered, beside the time in which copies of what it asked may come:
/// one more than a [session](crate::session) lets pass before it asks no more, for clocks that run unevenly.
const REMEMBERED: u32 = 3;

/// The procedures of one store for barriers.
#[derive(Debug)]
pub struct BarrierCalls {
    /// Ask to pass, and for a place until then.
    pub arrive: Call,
    /// Give the place up.
    pub leave: Call,
    /// Look, and change nothing.
    pub look: Call,
    /// Where a store keeps what became of parties in a key of its own: what stands behind the barrier's key there.
    pub past: Option<&'static str>,
}

impl BarrierCalls {
    /// Those that a store may be asked for by a digest, as
    /// [`Calls::by_digest`](crate::native_machine::Calls::by_digest).
    pub fn by_digest(&self) -> [&Call; 2] {
        let BarrierCalls { arrive, leave: _, look, past: _ } = self;
        [arrive, look]
    }

    /// The procedures of a store that runs [`crate::barrier_cell`]: their names say it all.
    pub const fn of_cell() -> Self {
        const fn call(name: &'static str) -> Call {
            Call { name, body: &[], batch: false }
        }
        let (arrive, leave, look) = (call("barrier.arrive"), call("barrier.leave"), call("barrier.look"));
        BarrierCalls { arrive, leave, look, past: None }
    }
}

impl BarrierPlan {
    /// For how long what becomes of it is to be remembered.
    fn memory(self) -> Duration {
        self.ttl.saturating_mul(REMEMBERED).saturating_add(self.copies)
    }
}

/// Reads how many stand there.
///
/// # Errors
/// What the store refused with; `protocol` where the reply makes no sense.
pub fn standing(reply: &Reply) -> crate::Result<u32> {
    if let Reply::Error { code, message } = reply {
        return Err(refusal("barrier", code, message));
    }
    let count = int(reply).and_then(|count| u32::try_from(count).ok()).filter(|count| *count < MOST_PARTIES);
    count.ok_or_else(|| nonsense("barrier", std::slice::from_ref(reply)))
}

/// Reads what follows the kind in the answer to a look at a barrier; see [`inspection`](crate::inspection).
pub(crate) fn read_inspection(list: &[Reply], nothing: Inspection) -> Option<Inspection> {
    let [parties, waiters] = list else { return None };
    let in_range = |reply| int(reply).and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= MOST_PARTIES.into());
    in_range(parties)?;
    Some(Inspection { waiters: in_range(waiters)?, primitive: Some(BARRIER), ..nothing })
}

/// The machine of a party.
#[derive(Clone, Debug)]
pub struct BarrierMachine {
    calls: &'static BarrierCalls,
    key: Arc<str>,
    plan: BarrierPlan,
}

impl BarrierMachine {
    /// The machine for the barrier kept under `key`, by the procedures `calls` of a store.
    pub fn new(calls: &'static BarrierCalls, key: Arc<str>, plan: BarrierPlan) -> Self {
        BarrierMachine { calls, key, plan }
    }

    fn begin(&self, intent: &Intent) -> Step {
        let (ttl, memory) = (micros(self.plan.ttl), micros(self.plan.memory()));
        let request = match intent {
            Intent::Acquire { terms, wait, .. } => {
                let me = Arg::Text(Claimant::of(terms).text());
                let (waits, parties) = (Arg::Int((*wait).into()), Arg::Int(self.plan.parties.into()));
                let args = [me, Arg::NotAfter, waits, ttl, parties, memory];
                self.request(&self.calls.arrive, args)
            }
            Intent::Undo { terms, .. } => self.request(&self.calls.leave, [attempt_arg(terms.attempt), memory]),
            // Nothing is held: that it passed stays true.
            Intent::Renew { .. } => return Step::Done(Verdict::Renewed),
            Intent::Release { .. } => return gone_on(),
        };
        Step::Ask(Requests::from_iter([request]))
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        let mut request = Request::new(call, self.key.clone(), args);
        request.args.extend(past_key(self.calls.past, &self.key));
        request
    }

    fn read(&self, op: Op, reply: &Reply) -> Option<Step> {
        if let Reply::Error { code, message } = reply {
            return Some(Step::Done(Verdict::Failed(refusal(operation(op), code, message))));
        }
        let list = match (op, reply) {
            (Op::Undo, Reply::Int(1)) => return Some(Step::Done(Verdict::Undone)),
            (Op::Acquire | Op::Undo, Reply::List(list)) => list.iter().map(int).collect::<Option<Vec<_>>>()?,
            _ => return None,
        };
        match (op, &list[..]) {
            (_, [3, index, generation]) => passed(Passage::new(*index, *generation)?.token().n),
            (Op::Acquire, list) => self.arrived(list),
            _ => None,
        }
    }

    fn arrived(&self, list: &[i64]) -> Option<Step> {
        Some(match *list {
            [0, now, others] if others >= 0 => {
                Step::Done(Verdict::Held { remaining: Duration::ZERO, at: Some(StoreTime(now)), prev: None })
            }
            // No moment of the store's clock comes with it: a passage does not age.
            [1, _, standing] if standing > 0 => {
                Step::Wait(Wait { at: None, remaining: self.plan.ttl / RENEWALS, position: 0, prev: None })
            }
            [2, at] => Step::Done(Verdict::Late { at: StoreTime(at) }),
            [4] => {
                let error = Error::new(Kind::NotOwned, "barrier", "this wait was given up before");
                Step::Done(Verdict::Failed(error))
            }
            [5, parties] if parties > 0 => {
                Step::Done(Verdict::Failed(differs(self.plan, u32::try_from(parties).ok()?)))
            }
            _ => return None,
        })
    }
}

impl Protocol for BarrierMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => self.begin(&intent),
            Input::Reply(op, replies) => answered(op, replies, |reply| self.read(op, reply)),
            Input::Event(StoreEvent::Granted { first, .. }) => {
                passed(*first).unwrap_or(Step::Done(Verdict::Implausible))
            }
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::Place, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (&self.key, self.plan).hash(&mut state);
    }
}

/// Those who stand there name another number of parties.
pub(crate) fn differs(plan: BarrierPlan, others: u32) -> Error {
    let mine = plan.parties;
    let message =
        format!("it is for {mine} parties here, but for {others} as those say who wait; all must name the same number");
    Error::new(Kind::InvalidConfig, "barrier", message)
}

/// It changed under each of too many looks in a row.
pub(crate) fn restless() -> Error {
    Error::new(Kind::Unavailable, "barrier", "the barrier changed each time it was looked at; try again")
}

/// What kept the place is over, and with it what became of that.
pub(crate) fn lost() -> Error {
    let message = "this client's session at the store ended while it waited, so that it is not known any more whether it passed; see \
                   whether the others went on";
    Error::new(Kind::Lost, "barrier", message)
}

/// It passed, as a grant of this token.
pub(crate) fn passed(token: u64) -> Option<Step> {
    let tokens = Some(Tokens::one(token)?);
    Some(Step::Done(Verdict::Granted(Grant { tokens, term: Term::ForGood, prev: None })))
}

/// A request of this layout as the stores that run [`crate::barrier_cell`] read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// See [`BarrierCell::arrive`].
    Arrive(Arrive),
    /// See [`BarrierCell::leave`].
    Leave(AttemptId, Duration),
    /// See [`BarrierCell::look`].
    Look,
    /// Tell how it stands; asked for by a look at whatever lies there.
    Inspect,
}

impl Cell for BarrierCell {
    type Procedure = Procedure;
    type InMemory = BarrierInMemory;

    const INSPECT: Procedure = Procedure::Inspect;

    fn read(request: &Request) -> Option<Procedure> {
        let args = Arguments(&request.args);
        Some(match request.call.name {
            "barrier.arrive" => Procedure::Arrive(Arrive {
                asker: args.claimant(0)?,
                not_after: StoreTime(args.number(1)?),
                wait: args.number(2)? != 0,
                ttl: duration(args.number(3)?),
                parties: u32::try_from(args.number(4)?).ok().filter(|parties| (1..=MOST_PARTIES).contains(parties))?,
                memory: duration(args.number(5)?),
            }),
            "barrier.leave" => Procedure::Leave(args.attempt(0)?, duration(args.number(1)?)),
            "barrier.look" => Procedure::Look,
            _ => return None,
        })
    }

    fn only_looks(procedure: &Procedure) -> bool {
        matches!(procedure, Procedure::Look | Procedure::Inspect)
    }

    fn word(&self) -> &'static str {
        BARRIER
    }

    fn last(&self) -> u64 {
        // What a barrier made anew counts from is told in thousandths of it.
        self.generation.saturating_mul(1000)
    }

    fn is_idle(&self, _: &BarrierInMemory, now: StoreTime) -> bool {
        !self.is_there(now)
    }
}

impl<S: BarrierStorage> Runs<S> for BarrierCell {
    type Error = S::Error;

    fn run(&mut self, procedure: Procedure, storage: &mut S, env: &mut Surroundings<'_>) -> Result<Reply, S::Error> {
        let now = env.now.0;
        let told = |passage: Passage| {
            numbers(&[3, passage.index.into(), i64::try_from(passage.generation).unwrap_or(i64::MAX)])
        };
        Ok(match &procedure {
            Procedure::Arrive(ask) => match self.arrive(storage, env, ask)? {
                Arrived::Passed(passage) => told(passage),
                Arrived::Short(others) => numbers(&[0, now, others.into()]),
                Arrived::Stands(standing) => numbers(&[1, now, standing.into()]),
                Arrived::Late => numbers(&[2, now]),
                Arrived::Gone => numbers(&[4]),
                Arrived::Differs(parties) => numbers(&[5, parties.into()]),
            },
            Procedure::Leave(attempt, memory) => {
                self.leave(storage, env, *attempt, *memory)?.map_or(Reply::Int(1), told)
            }
            Procedure::Look => Reply::Int(self.look(storage, env.now)?.into()),
            Procedure::Inspect if self.is_there(env.now) => {
                let numbers = [self.parties, storage.count(env.now)?].map(|number| Reply::Int(number.into()));
                Reply::List(std::iter::once(Reply::Text(BARRIER.into())).chain(numbers).collect())
            }
            Procedure::Inspect => Reply::Nil,
        })
    }
}
