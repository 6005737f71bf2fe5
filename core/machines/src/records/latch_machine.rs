//! The protocol of latches: one machine, and one wire form, for every store that can run a procedure atomically. It is
//! to [`crate::latch_cell`] what [`crate::native_machine`] is to [`crate::lock_cell`].
//!
//! ```text
//!   wait    claimant not-after wait count idle-us             ->  1             open
//!                                                             |   [0, now, count]  not open, and the asker is told nothing
//!                                                             |   [1, now, count]  not open; a push tells the asker when it is
//!                                                             |   [2, now]         late
//!   leave   attempt                                           ->  1
//!   change  attempt not-after copies-us operation count idle-us    ->  [1, count] | [0] refused | [2, now] late
//!   look                                                      ->  count | nil
//! ```
//!
//! To wait is to acquire what everybody gets at once when the latch is open, and nobody has to give back: the sessions
//! of locks do the waiting, with their timers, pushes and undoing, and a release is over before anything is sent.
//! Resending any of the requests is safe. Source: own layout, `docs/adr/0022-to-wait-for-a-latch-is-to-acquire-it.md`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::{Arguments, attempt_arg, micros, past_key};
use crate::cell::{Cell, Runs};
use crate::gate::{Answer, CountOperation, LatchPlan, MOST_COUNT, gone_on};
use crate::latch_cell::{Changed, CountChange, LatchCell, LatchInMemory, LatchStorage, Wait, Waited};
use crate::lease::{Counting, Inspection, LATCH};
use crate::lock_cell::{Claimant, Surroundings};
use crate::options::DEFAULT_TTL;
use crate::protocol::{
    self, Arg, AttemptId, Call, Grant, Input, Intent, Op, Protocol, Push, Question, Reply, Request, Requests, Step,
    StoreEvent, Term, Traits, Verdict,
};
use crate::replies::{answered, duration, int, nonsense, numbers, operation, refusal};
use crate::time::StoreTime;
use crate::token::Tokens;

/// How often a wait is asked again at the latest, should the push that ends it get lost. It keeps the latch.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The ttl on which a latch is waited for: more than twice the time after which a wait is asked again, so that no grant
/// is so old that it has to be confirmed.
pub const TTL: Duration = DEFAULT_TTL;

/// The procedures of one store for latches.
#[derive(Debug)]
pub struct LatchCalls {
    /// Ask whether it is open, and to be told when it is.
    pub wait: Call,
    /// Ask not to be told.
    pub leave: Call,
    /// Count down, or set the count.
    pub change: Call,
    /// Look, and change nothing.
    pub look: Call,
    /// Where a store keeps who counted in a key of its own: what stands behind the latch's key there.
    pub past: Option<&'static str>,
}

impl LatchCalls {
    /// Those that a store may be asked for by a digest, as
    /// [`Calls::by_digest`](crate::native_machine::Calls::by_digest).
    pub fn by_digest(&self) -> [&Call; 3] {
        let LatchCalls { wait, leave: _, change, look, past: _ } = self;
        [wait, change, look]
    }

    /// The request that asks `question` of the latch under `key`.
    pub fn question(&'static self, key: Arc<str>, question: Question) -> Request {
        let Question::Change { attempt, copies, operation, plan } = question else {
            return Request::new(&self.look, key, []);
        };
        let does = match operation {
            CountOperation::Down => "down",
            CountOperation::Set => "set",
        };
        let args = [attempt_arg(attempt), Arg::NotAfter, micros(copies), does.into()];
        let past = past_key(self.past, &key);
        let mut request = Request::new(&self.change, key, args);
        request.args.extend(plan_args(plan));
        request.args.extend(past);
        request
    }

    /// The procedures of a store that runs [`crate::latch_cell`]: their names say it all.
    pub const fn of_cell() -> Self {
        const fn call(name: &'static str) -> Call {
            Call { name, body: &[], batch: false }
        }
        LatchCalls {
            wait: call("latch.wait"),
            leave: call("latch.leave"),
            change: call("latch.change"),
            look: call("latch.look"),
            past: None,
        }
    }
}

fn plan_args(plan: LatchPlan) -> [Arg; 2] {
    [Arg::Int(plan.count.into()), micros(plan.idle)]
}

/// Reads what follows the kind in the answer to a look at a latch; see [`inspection`](crate::inspection).
pub(crate) fn read_inspection(list: &[Reply], nothing: Inspection) -> Option<Inspection> {
    let [count, waiters] = list else { return None };
    let latch = Counting { count: counted(int(count)?)? };
    let waiters = u64::try_from(int(waiters)?).ok()?;
    Some(Inspection { waiters, primitive: Some(LATCH), latch: Some(latch), ..nothing })
}

fn counted(n: i64) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n <= MOST_COUNT)
}

/// Reads what a latch answered to a [`Question`].
///
/// # Errors
/// What the store refused with; `protocol` where the reply makes no sense.
pub fn answer(reply: &Reply) -> crate::Result<Answer> {
    if let Reply::Error { code, message } = reply {
        return Err(refusal("latch", code, message));
    }
    answer_of(reply).ok_or_else(|| nonsense("latch", std::slice::from_ref(reply)))
}

fn answer_of(reply: &Reply) -> Option<Answer> {
    Some(match reply {
        Reply::Nil => Answer::Nothing,
        Reply::Int(left) => Answer::Left(counted(*left)?),
        Reply::List(list) => match list.iter().map(int).collect::<Option<Vec<_>>>()?[..] {
            [0] => Answer::Refused,
            [1, left] => Answer::Left(counted(left)?),
            [2, at] => Answer::Late(StoreTime(at)),
            _ => return None,
        },
        _ => return None,
    })
}

/// The machine of a wait.
#[derive(Clone, Debug)]
pub struct LatchMachine {
    calls: &'static LatchCalls,
    key: Arc<str>,
    plan: LatchPlan,
    push: Push,
}

impl LatchMachine {
    /// The machine for the latch kept under `key`, by the procedures `calls` of a store that can `push`.
    pub fn new(calls: &'static LatchCalls, key: Arc<str>, plan: LatchPlan, push: bool) -> Self {
        let push = if push { Push::Inbox } else { Push::None };
        LatchMachine { calls, key, plan, push }
    }

    fn begin(&self, intent: &Intent) -> Step {
        let request = match intent {
            Intent::Acquire { terms, wait, .. } => {
                let me = Arg::Text(Claimant::of(terms).text());
                let mut request = self.request(&self.calls.wait, [me, Arg::NotAfter, Arg::Int((*wait).into())]);
                request.args.extend(plan_args(self.plan));
                request
            }
            Intent::Undo { terms, .. } => self.request(&self.calls.leave, [attempt_arg(terms.attempt)]),
            // Nothing is held: that it was open stays true.
            Intent::Renew { .. } => return Step::Done(Verdict::Renewed),
            Intent::Release { .. } => return gone_on(),
        };
        Step::Ask(Requests::from_iter([request]))
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }
}

impl Protocol for LatchMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => self.begin(&intent),
            Input::Reply(op, replies) => answered(op, replies, |reply| read(op, reply)),
            // That it was open is as true later: the grant counts like an answered one, however old the push is.
            Input::Event(StoreEvent::Granted { .. }) => open(),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: self.push, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (&self.key, self.plan).hash(&mut state);
    }
}

fn open() -> Step {
    Step::Done(Verdict::Granted(Grant { tokens: Tokens::one(1), term: Term::FromRequest, prev: None }))
}

fn read(op: Op, reply: &Reply) -> Option<Step> {
    if let Reply::Error { code, message } = reply {
        return Some(Step::Done(Verdict::Failed(refusal(operation(op), code, message))));
    }
    match (op, reply) {
        (Op::Acquire, Reply::Int(1)) => Some(open()),
        (Op::Acquire, Reply::List(list)) => waits(list),
        (Op::Undo, Reply::Int(_)) => Some(Step::Done(Verdict::Undone)),
        _ => None,
    }
}

fn waits(list: &[Reply]) -> Option<Step> {
    let numbers = list.iter().map(int).collect::<Option<Vec<_>>>()?;
    Some(match numbers[..] {
        [0, now, count] if count > 0 => {
            Step::Done(Verdict::Held { remaining: PATIENCE, at: Some(StoreTime(now)), prev: None })
        }
        // No moment of the store's clock comes with it: no lease is to be dated from there, and no first in line looks
        // after others.
        [1, _, count] if count > 0 => {
            Step::Wait(protocol::Wait { at: None, remaining: PATIENCE, position: 0, prev: None })
        }
        [2, at] => Step::Done(Verdict::Late { at: StoreTime(at) }),
        _ => return None,
    })
}

/// A request of this layout as the stores that run [`crate::latch_cell`] read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// See [`LatchCell::wait`].
    Wait(Wait),
    /// See [`LatchCell::leave`].
    Leave(AttemptId),
    /// See [`LatchCell::change`].
    Change(CountChange),
    /// See [`LatchCell::look`].
    Look,
    /// Tell how it stands; asked for by a look at whatever lies there.
    Inspect,
}

impl Cell for LatchCell {
    type Procedure = Procedure;
    type InMemory = LatchInMemory;

    const INSPECT: Procedure = Procedure::Inspect;

    fn read(request: &Request) -> Option<Procedure> {
        let args = Arguments(&request.args);
        let plan = |i: usize| {
            let count = u32::try_from(args.number(i)?).ok().filter(|count| (1..=MOST_COUNT).contains(count))?;
            Some(LatchPlan { count, idle: duration(args.number(i + 1)?) })
        };
        let not_after = || args.number(1).map(StoreTime);
        Some(match request.call.name {
            "latch.wait" => Procedure::Wait(Wait {
                asker: args.claimant(0)?,
                not_after: not_after()?,
                wait: args.number(2)? != 0,
                plan: plan(3)?,
            }),
            "latch.leave" => Procedure::Leave(args.attempt(0)?),
            "latch.change" => Procedure::Change(CountChange {
                attempt: args.attempt(0)?,
                not_after: not_after()?,
                copies: duration(args.number(2)?),
                operation: match args.text(3)? {
                    "down" => CountOperation::Down,
                    "set" => CountOperation::Set,
                    _ => return None,
                },
                plan: plan(4)?,
            }),
            "latch.look" => Procedure::Look,
            _ => return None,
        })
    }

    fn only_looks(procedure: &Procedure) -> bool {
        matches!(procedure, Procedure::Look | Procedure::Inspect)
    }

    fn word(&self) -> &'static str {
        LATCH
    }

    fn last(&self) -> u64 {
        0
    }

    fn is_idle(&self, _: &LatchInMemory, now: StoreTime) -> bool {
        self.look(now).is_none()
    }
}

impl<S: LatchStorage> Runs<S> for LatchCell {
    type Error = S::Error;

    fn run(&mut self, procedure: Procedure, storage: &mut S, env: &mut Surroundings<'_>) -> Result<Reply, S::Error> {
        let now = env.now.0;
        Ok(match &procedure {
            Procedure::Wait(ask) => match self.wait(storage, env, ask)? {
                Waited::Open => Reply::Int(1),
                Waited::Shut(count) => numbers(&[0, now, count.into()]),
                Waited::Told(count) => numbers(&[1, now, count.into()]),
                Waited::Late => numbers(&[2, now]),
            },
            Procedure::Leave(attempt) => {
                self.leave(storage, env, *attempt)?;
                Reply::Int(1)
            }
            Procedure::Change(change) => match self.change(storage, env, change)? {
                Changed::Left(count) => numbers(&[1, count.into()]),
                Changed::Refused => numbers(&[0]),
                Changed::Late => numbers(&[2, now]),
            },
            Procedure::Look => self.look(env.now).map_or(Reply::Nil, |count| Reply::Int(count.into())),
            Procedure::Inspect => match self.look(env.now) {
                Some(count) => {
                    let numbers = [count, storage.waiting()?].map(|number| Reply::Int(number.into()));
                    Reply::List(std::iter::once(Reply::Text(LATCH.into())).chain(numbers).collect())
                }
                None => Reply::Nil,
            },
        })
    }
}
