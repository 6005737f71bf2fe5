//! What a store does is what the [cells](lockwright_machines::cell) do, however it keeps them: the same random
//! commands go to both, under a clock that the test sets, and answers, pushes and what is left must be equal. A kind of
//! record is a file beside this one, a store a [`Store`].

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

pub mod barrier;
pub mod latch;
pub mod lock;
pub mod shared;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::cell::{Cell, Runs};
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::native_machine::NativeLayout;
use lockwright_machines::protocol::{
    AttemptId, InboxId, Input, Inquiry, Intent, Layout, Op, Protocol, Reply, Request, Step, StoreEvent, Terms, Verdict,
};
use lockwright_machines::rank::Rank;
use lockwright_machines::time::StoreTime;
use lockwright_machines::{Kind, Result};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::requests::{asked, begun, dated};

pub const MINUTE: i64 = 60_000_000;
pub const TTL: Duration = Duration::from_secs(30);
pub const CLAIM: Duration = Duration::from_secs(1);

/// The inbox where somebody listens.
pub const LISTENS: InboxId = InboxId(1);
const SILENT: InboxId = InboxId(2);

/// A kind of record, with the commands on which it is compared.
pub trait Compared: Cell + Runs<<Self as Cell>::InMemory, Error = Infallible> {
    /// One step of a sequence.
    type Command: Clone + Debug;

    /// Whether those who are told of one request are told in an order.
    const TELLS_IN_ORDER: bool = true;

    /// Sequences in which most of what can happen does.
    fn commands() -> BoxedStrategy<Vec<Self::Command>>;

    /// What a step is.
    fn step(model: &Model<Self>, command: &Self::Command) -> Deed;

    /// The step that looks at the record.
    fn look() -> Self::Command;

    /// Who stands in its queue.
    fn line(_: &Self::InMemory) -> Vec<AttemptId> {
        Vec::new()
    }
}

/// What one step of a sequence is.
pub enum Deed {
    /// So many microseconds pass.
    Pause(i64),
    /// Something is asked.
    Ask(Question),
}

type Read = Box<dyn FnOnce(&Reply) -> Result<()>>;

/// What is asked, as a machine or a layout asks it.
pub struct Question {
    pub request: Request,
    /// It comes too late.
    pub late: bool,
    /// Reads the answer; whether it makes no sense is told by the error.
    read: Read,
}

impl Question {
    /// What `machine` asks as it begins to do what is intended.
    pub fn of(mut machine: impl Protocol + 'static, intent: Intent) -> Self {
        let (op, request) = (intent.op(), begun(&mut machine, intent));
        Question::to(machine, op, request)
    }

    /// What `machine` asked in a step of its own.
    pub fn in_step<M: Protocol + 'static>(mut machine: M, op: Op, step: impl FnOnce(&mut M) -> Step) -> Self {
        let request = asked(step(&mut machine));
        Question::to(machine, op, request)
    }

    /// A request whose answer `machine` reads.
    pub fn to(mut machine: impl Protocol + 'static, op: Op, request: Request) -> Self {
        let read = move |reply: &Reply| match machine.step(Input::Reply(op, std::slice::from_ref(reply))) {
            Step::Done(Verdict::Failed(error)) => Err(error),
            _ => Ok(()),
        };
        Question { request, late: false, read: Box::new(read) }
    }

    /// What belongs to no attempt.
    pub fn beside<T>(layout: Arc<dyn Layout>, inquiry: impl Fn(&dyn Layout) -> Inquiry<'_, T> + 'static) -> Self {
        let request = inquiry(&*layout).asks()[0].clone();
        Question::read_by(request, move |reply| inquiry(&*layout).answered(reply).map(|_| ()))
    }

    /// A request whose answer is read by `read`.
    pub fn read_by(request: Request, read: impl FnOnce(&Reply) -> Result<()> + 'static) -> Self {
        Question { request, late: false, read: Box::new(read) }
    }

    pub fn that_is_late(self, late: bool) -> Self {
        Question { late, ..self }
    }
}

impl From<Question> for Deed {
    fn from(question: Question) -> Self {
        Deed::Ask(question)
    }
}

/// A store that is compared.
pub trait Store<C: Compared> {
    /// Whether its clock may step back.
    const CLOCK_STEPS_BACK: bool;

    fn layout(&self) -> NativeLayout;

    /// Forgets what lies under `key`; at what time to begin.
    fn begin(&mut self, key: &str) -> StoreTime;

    fn ask(&mut self, request: &Request, now: StoreTime) -> Reply;

    /// What was pushed to those who listen, and not told yet.
    fn pushed(&mut self) -> Vec<(Arc<str>, StoreEvent)>;

    /// Whether anything lies there.
    fn is_there(&mut self, key: &str) -> bool;

    /// Whether the record ends by itself by then, as the cell need not know.
    fn forgets(&mut self, key: &str, now: StoreTime) -> bool;

    /// The answer, with what the store may tell differently put straight.
    fn comparable(&self, model: &Model<C>, request: &Request, expected: &Reply, reply: Reply) -> Reply;

    /// Whether the store keeps what the model does.
    fn check(&mut self, model: &Model<C>) -> std::result::Result<(), TestCaseError>;

    /// The same once nothing more comes.
    fn check_at_end(&mut self, _: &Model<C>) {}
}

/// The record as it is to be, with its clock.
pub struct Model<C: Compared> {
    pub layout: NativeLayout,
    pub key: Arc<str>,
    pub cell: C,
    pub beside: C::InMemory,
    pub now: StoreTime,
    /// Who waited before the last request.
    pub waited: Vec<AttemptId>,
    /// Somebody left the queue's middle.
    pub has_gaps: bool,
}

/// Plays one sequence on a store and on the model.
pub fn play<C: Compared, S: Store<C>>(
    store: &mut S,
    commands: &[C::Command],
) -> std::result::Result<(), TestCaseError> {
    let layout = store.layout();
    let key = layout.key(&format!("compared {}", C::default().word())).expect("a good name");
    let now = store.begin(&key);
    let (cell, beside) = (C::default(), C::InMemory::default());
    let mut model = Model::<C> { layout, key, cell, beside, now, waited: Vec::new(), has_gaps: false };
    for command in commands {
        model.one(store, command)?;
        store.check(&model)?;
    }
    model.one(store, &C::look())?;
    store.check_at_end(&model);
    prop_assert_eq!(store.pushed(), vec![], "pushed too much");
    Ok(())
}

impl<C: Compared> Model<C> {
    fn one<S: Store<C>>(&mut self, store: &mut S, command: &C::Command) -> std::result::Result<(), TestCaseError> {
        let Question { request, late, read } = match C::step(self, command) {
            Deed::Ask(question) => question,
            Deed::Pause(micros) => {
                self.now = StoreTime(self.now.0 + if S::CLOCK_STEPS_BACK { micros } else { micros.max(0) });
                if store.forgets(&self.key, self.now) {
                    (self.cell, self.beside, self.has_gaps) = Default::default();
                }
                return Ok(());
            }
        };
        let request = dated(request, self.now.0 - i64::from(late));
        let (expected, mut told) = self.run(store, &request);
        let reply = store.ask(&request, self.now);
        let comparable = store.comparable(self, &request, &expected, reply.clone());
        prop_assert_eq!(&comparable, &expected, "{:?} at {:?}", command, self.now);
        let mut pushed = if told.is_empty() { Vec::new() } else { store.pushed() };
        if !C::TELLS_IN_ORDER {
            pushed.sort_by_key(|(_, event)| whom(event));
            told.sort_by_key(|(_, event)| whom(event));
        }
        prop_assert_eq!(pushed, told, "{:?}", command);
        let is_nonsense = read(&reply).is_err_and(|error| error.kind() == Kind::Protocol);
        prop_assert!(!is_nonsense, "{:?} to {:?}", reply, command);
        Ok(())
    }

    /// What the cell answers and pushes to those who listen.
    fn run<S: Store<C>>(&mut self, store: &mut S, request: &Request) -> (Reply, Vec<(Arc<str>, StoreEvent)>) {
        let alive = |inbox| inbox == LISTENS;
        let token_floor = self.now.0.unsigned_abs();
        let mut env = Surroundings { now: self.now, token_floor, alive: &alive, pushes: Vec::new() };
        let looks = std::ptr::eq(request.call, &raw const self.layout.calls.inspect);
        if looks && !store.is_there(&self.key) {
            return (Reply::Nil, Vec::new());
        }
        // A look is asked of whatever lies there.
        let procedure = if looks { C::INSPECT } else { C::read(request).expect("one of the cell's") };
        self.waited = C::line(&self.beside);
        let Ok(reply) = self.cell.run(procedure, &mut self.beside, &mut env);
        let waits = C::line(&self.beside);
        let stayed: Vec<_> = self.waited.iter().filter(|attempt| waits.contains(attempt)).collect();
        self.has_gaps |= !self.waited.iter().rev().zip(stayed.into_iter().rev()).all(|(was, is)| was == is);
        let heard = env.pushes.into_iter().filter(|(inbox, _)| alive(*inbox));
        (reply, heard.map(|(_, event)| (self.key.clone(), event)).collect())
    }
}

fn whom(event: &StoreEvent) -> AttemptId {
    match event {
        StoreEvent::Granted { attempt, .. } => *attempt,
        _ => AttemptId(0),
    }
}

/// What claimant `who` says of itself; those from `silent` on listen nowhere.
pub fn terms(who: usize, silent: usize) -> Terms {
    Terms {
        name: "model".into(),
        attempt: AttemptId(0xA000 + who as u128),
        inbox: if who < silent { LISTENS } else { SILENT },
        ttl: if who < 2 { TTL } else { CLAIM },
        claim: CLAIM,
        card: if who == 3 { "".into() } else { format!("host\t{who}\trust\tlabel {who}").into() },
        fair: false,
        rank: Rank::LOWEST,
    }
}
