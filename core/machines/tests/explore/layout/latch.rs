//! Latches: the model of a store is the shipped reference semantics. Nobody holds one, so what is checked of whoever
//! believes to have passed is that it is open, and it is once as many have counted down as were to, each once.

use std::hash::Hash;
use std::time::Duration;

use lockwright_machines::cell::Cell;
use lockwright_machines::gate::{CountOperation, LatchPlan, MAX_IDLE};
use lockwright_machines::latch_cell::{CountChange, LatchCell, LatchInMemory};
use lockwright_machines::latch_machine::{LatchCalls, LatchMachine, Procedure};
use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::relative::Relative;
use lockwright_machines::remembered::Remembered;
use lockwright_machines::time::{StoreTime, Time};

use super::{Around, Checked, Record, name_of, run_cell};
use crate::process::process_of;
use crate::view::{Mix, View};

static CALLS: LatchCalls = LatchCalls::of_cell();

/// As many count down as are explored. No run lasts until it is forgotten.
const PLAN: LatchPlan = LatchPlan { count: 2, idle: MAX_IDLE };

/// Later than any run lasts, in microseconds.
const NEVER: i64 = 1_000_000_000_000_000;

/// The record as it is to be.
pub type LatchRecord = Seeded<0>;

/// One that counts a copy of a count-down as another one.
pub const COUNTS_COPIES: u8 = 1;
/// One that tells nobody that it is open.
pub const TELLS_NOBODY: u8 = 2;
/// One that opens before the last.
pub const OPENS_EARLY: u8 = 3;

/// The record, or one with a fault.
#[derive(Clone, Debug, Default)]
pub struct Seeded<const FAULT: u8> {
    cell: LatchCell,
    kept: LatchInMemory,
}

/// What tells a count-down from every other attempt.
fn attempt_of(operation: usize) -> AttemptId {
    AttemptId(u128::MAX - operation as u128)
}

impl<const FAULT: u8> Record for Seeded<FAULT> {
    type Call = Procedure;

    const BLOCK: u64 = 1;

    fn machine() -> Box<dyn Protocol> {
        Box::new(LatchMachine::new(&CALLS, "L".into(), PLAN, true))
    }

    fn operation(operation: usize, not_after: StoreTime) -> Option<Procedure> {
        let copies = Duration::from_micros(NEVER as u64);
        Some(Procedure::Change(CountChange {
            attempt: attempt_of(operation),
            not_after,
            copies,
            operation: CountOperation::Down,
            plan: PLAN,
        }))
    }

    fn read(request: &Request) -> Option<Procedure> {
        LatchCell::read(request)
    }

    fn run(&mut self, call: &Procedure, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        if FAULT == COUNTS_COPIES {
            self.kept.counted = Remembered::default();
        }
        let (reply, mut pushes) = run_cell(&mut self.cell, &mut self.kept, call.clone(), around);
        if FAULT == OPENS_EARLY && self.cell.count == Some(1) {
            self.cell.count = Some(0);
        }
        if FAULT == TELLS_NOBODY {
            pushes.clear();
        }
        (reply, pushes)
    }

    fn renews(_: &Procedure) -> Option<Duration> {
        None
    }

    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)> {
        std::iter::empty()
    }

    fn lasts(&self, _: &dyn Fn(AttemptId) -> bool) -> Option<StoreTime> {
        // An open latch stays open, whoever passes it.
        (self.cell.count == Some(0)).then_some(StoreTime(NEVER))
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        self.kept.waiting.keys().copied()
    }

    fn last(&self) -> u64 {
        0
    }

    fn check(&self, before: &Self, call: &Procedure, _: &Around<'_>) -> Checked<()> {
        let explained = || Self::explain(call);
        if before.cell.count == Some(0) && self.cell.count != Some(0) {
            return Err(format!("{} shuts an open latch", explained()));
        }
        let (left, counted) = (self.cell.count.unwrap_or(PLAN.count), self.kept.counted.len());
        if left as usize + counted != PLAN.count as usize {
            return Err(format!("{left} are to come after {}, though {counted} of {} came", explained(), PLAN.count));
        }
        if left == 0 && !self.kept.waiting.is_empty() {
            return Err(format!("{} leaves somebody waiting for an open latch", explained()));
        }
        Ok(())
    }

    fn fingerprint(&self, _: &View, state: &mut Mix) {
        self.cell.count.hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        for attempt in self.line().filter(|attempt| process_of(*attempt) == client) {
            view.attempt(attempt).hash(state);
        }
    }

    fn fingerprint_call(call: &Procedure, sent: Time, view: &View, state: &mut Mix) {
        match call {
            Procedure::Wait(ask) => (1_u8, ask.wait, view.ahead_at_store(ask.not_after), view.ago(sent)).hash(state),
            Procedure::Leave(_) => 2_u8.hash(state),
            other => unreachable!("{other:?} is no client's"),
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        let Reply::List(list) = reply else { return (op, reply, view.ago(sent)).hash(state) };
        let [Reply::Int(code), Reply::Int(at), ..] = list.as_slice() else { unreachable!("{reply:?} is no answer") };
        (code, view.ago(sent)).hash(state);
        // Who waits dates nothing by the store's clock, but learns how late it is there.
        if *code != 1 || dated {
            view.ago_at_store(StoreTime(*at)).hash(state);
        }
    }

    fn explain(call: &Procedure) -> String {
        match call {
            Procedure::Wait(ask) => {
                let how = if ask.wait { "" } else { ", without being told" };
                format!("wait {}{how}", name_of(ask.asker.attempt))
            }
            Procedure::Leave(attempt) => format!("leave {}", name_of(*attempt)),
            Procedure::Change(_) => "a count-down".into(),
            other => format!("{other:?}"),
        }
    }

    fn explain_reply(reply: &Reply, _: i64, _: i64) -> String {
        format!("{reply:?}")
    }

    fn describe(&self, _: StoreTime, _: i64) -> String {
        let line: Vec<String> = self.line().map(name_of).collect();
        format!("{:?} to come; [{}] wait", self.cell.count, line.join(" "))
    }
}
