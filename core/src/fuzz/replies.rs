//! Replies and events of every shape, given to the machines of the layouts.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockwright_machines::barrier_machine;
use lockwright_machines::gate::{BarrierPlan, Gate, LatchPlan, MAX_IDLE};
use lockwright_machines::latch_machine;
use lockwright_machines::rank::Rank;
use lockwright_machines::stores::postgres;
use lockwright_machines::stores::redis::layouts;
use lockwright_machines::stores::zookeeper::layouts::line::Line;
use lockwright_machines::stores::zookeeper::layouts::line_layout::LineLayout;
use lockwright_machines::stores::zookeeper::layouts::recipe::Recipe;

use super::{Feed, is_readable};
use crate::error::{Error, Kind};
use crate::protocol::{
    AttemptId, InboxId, Input, Intent, Layout, Op, Protocol, Reply, Request, Requests, Step, StoreEvent, Terms, Verdict,
};
use crate::share::Share;
use crate::time::StoreTime;

const OPS: [Op; 4] = [Op::Acquire, Op::Renew, Op::Release, Op::Undo];

fn terms(attempt: u8) -> Terms {
    let second = Duration::from_secs(1);
    let card: Arc<str> = "host\t1\trust\t".into();
    Terms {
        name: "x".into(),
        attempt: AttemptId(attempt.into()),
        inbox: InboxId(1),
        ttl: second * 30,
        claim: second,
        card,
        fair: attempt == 1,
        rank: Rank::LOWEST,
    }
}

/// A verdict that can be acted on: tokens that exist and do not run over, errors that can be read.
pub(crate) fn is_sound(step: &Step, block: u64) {
    match step {
        Step::Done(Verdict::Granted(grant)) => {
            let set_aside = grant.tokens.map(|tokens| tokens.last() - tokens.first());
            assert_eq!(set_aside, Some(block - 1), "{grant:?}");
        }
        Step::Done(Verdict::Failed(error)) => is_readable(error),
        _ => {}
    }
}

/// The layout that `choice` means: one a run, since all would make each run as many times slower.
pub(crate) fn chosen(choice: u8) -> &'static dyn Layout {
    static LAYOUTS: LazyLock<Vec<Arc<dyn Layout>>> = LazyLock::new(|| {
        let shared = layouts::native_scripts::layout("p").shared(Share::READ);
        let latch = LatchPlan::new(2, MAX_IDLE).ok().map(Gate::Latch);
        let barrier = BarrierPlan::new(3, Duration::from_secs(30), Duration::from_secs(70)).ok();
        let gates = latch.into_iter().chain(barrier.map(Gate::Barrier));
        let gates = gates.filter_map(|gate| layouts::native_scripts::layout("p").gate(gate));
        // The first is of records, as in Redis.
        let tables = postgres::layouts::all("p", Duration::from_secs(30)).into_iter().skip(1);
        layouts::all("p").into_iter().chain(shared).chain(gates).chain(tables).collect()
    });
    &*LAYOUTS[usize::from(choice) / OPS.len() % LAYOUTS.len()]
}

/// What a layout is told in answer to something is understood or refused, in the conversation that `choice` means.
pub(crate) fn is_understood_or_refused(layout: &dyn Layout, choice: u8, replies: &[Reply]) {
    let mut machine = layout.protocol("k".into());
    let terms = terms(1);
    machine.step(Input::Begin(Intent::Acquire { terms, wait: false, prev: None }));
    let block = machine.traits().block;
    let op = OPS[usize::from(choice) % OPS.len()];
    is_sound(&machine.step(Input::Reply(op, replies)), block);
    let Some(reply) = replies.first() else { return };
    for looks in [layout.inspect("x", "k".into()), layout.identify("x", "k".into())] {
        match looks.answered(reply) {
            Ok(seen) => assert!(seen.holder.is_none_or(|holder| !holder.remaining.is_zero())),
            Err(error) => is_readable(&error),
        }
    }
    if let Err(error) = layout.break_hold("k".into(), 1).answered(reply) {
        is_readable(&error);
    }
    let mut pages = 0..2;
    let enough = || Error::new(Kind::Internal, "list", "each page says that there is another one");
    let listed = layout.list().conclude(|_| pages.next().map(|_| vec![reply.clone()]).ok_or_else(enough));
    if let Err(error) = listed {
        is_readable(&error);
    }
    if let Err(error) = latch_machine::answer(reply) {
        is_readable(&error);
    }
    if let Err(error) = barrier_machine::standing(reply) {
        is_readable(&error);
    }
}

/// Whatever a store may answer in a layout of one request a conversation, it is understood or refused.
pub fn layout_reply(data: &[u8]) {
    let mut feed = Feed(data);
    let choice = feed.byte();
    is_understood_or_refused(chosen(choice), choice, &[feed.reply(3)]);
    let several: Vec<_> = (0..feed.byte() % 4).map(|_| feed.reply(1)).collect();
    is_understood_or_refused(chosen(choice), choice, &several);
}

/// More than any conversation needs once the same is answered again and again.
const ROUNDS: usize = 100;

/// Whatever a ZooKeeper server may answer and announce, each conversation comes to an end.
pub fn zookeeper_reply(data: &[u8]) {
    let mut feed = Feed(data);
    let mut machine = Line::new("/locks/x".into(), Recipe::Mutex);
    while !feed.is_over() {
        let (terms, wait) = (terms(feed.byte() % 2), feed.byte() % 2 == 0);
        let (op, intent) = match feed.byte() % 6 {
            5 => {
                is_looked_at(&mut feed);
                continue;
            }
            0 => (Op::Renew, Intent::Renew { ttl: terms.ttl, terms }),
            1 => (Op::Release, Intent::Release { terms, used: 0 }),
            2 => (Op::Undo, Intent::Undo { terms, prev: None }),
            _ => (Op::Acquire, Intent::Acquire { terms, wait, prev: None }),
        };
        converse(&mut machine, op, intent, &mut feed);
    }
}

/// A look at a lock, a break and a list end, too, and with errors for a person.
fn is_looked_at(feed: &mut Feed<'_>) {
    let layout = LineLayout::new("/locks".into(), String::new(), Duration::from_secs(30), Recipe::Mutex);
    let mut asked = 0;
    let mut answer = |requests: &Requests| {
        asked += 1;
        assert!(asked < 3 * ROUNDS, "it never ends");
        let count = if feed.byte() == 0 { 0 } else { requests.len() };
        Ok(requests[..count].iter().map(|request| feed.answer(request)).collect())
    };
    let ends = [
        layout.inspect("x", "/locks/x".into()).conclude(&mut answer).err(),
        layout.break_hold("/locks/x".into(), 1).conclude(&mut answer).err(),
        layout.list().conclude(&mut answer).err(),
    ];
    ends.iter().flatten().for_each(is_readable);
}

fn converse(machine: &mut Line, op: Op, intent: Intent, feed: &mut Feed<'_>) {
    let mut step = machine.step(Input::Begin(intent));
    let mut repeated = 0;
    loop {
        repeated += usize::from(feed.is_over());
        assert!(repeated < ROUNDS, "it never ends");
        is_sound(&step, 1);
        step = match step {
            Step::Ask(requests) => {
                let count = if feed.byte() == 0 { 0 } else { requests.len() };
                let replies: Vec<_> = requests[..count].iter().map(|request| feed.answer(request)).collect();
                machine.step(Input::Reply(op, &replies))
            }
            Step::Wait(_) if !feed.is_over() => machine.step(Input::Event(&feed.event())),
            Step::Ignore if !feed.is_over() => machine.step(Input::Event(&feed.event())),
            _ => return,
        };
    }
}

/// How the nodes of attempt 1 begin, so that the fuzzer need not guess it.
const OURS: &str = "_c_00000000-0000-0000-0000-000000000001-lock-";

impl Feed<'_> {
    fn node(&mut self) -> String {
        match self.byte() % 4 {
            0 => self.text(),
            1 => format!("{OURS}{}", self.text()),
            n => format!("{}{:010}", if n == 2 { OURS } else { "_c_x-lock-" }, self.int()),
        }
    }

    /// Mostly of the shape that belongs to the request.
    fn answer(&mut self, request: &Request) -> Reply {
        match self.byte() % 8 {
            0 => return self.reply(2),
            1 => return Reply::Error { code: "NoNode".into(), message: self.text() },
            _ => {}
        }
        let session = Reply::Int(self.int());
        match request.call.name {
            "create" => {
                let parent = request.key.rsplit_once('/').map_or("", |(parent, _)| parent);
                let path = format!("{parent}/{}", self.node());
                Reply::List(vec![session, Reply::Text(path), Reply::Int(self.int()), Reply::Int(self.int())])
            }
            "children" => {
                let names: Vec<_> = (0..self.byte() % 5).map(|_| Reply::Text(self.node())).collect();
                Reply::List([vec![session], names].concat())
            }
            "get" => {
                Reply::List(vec![session, Reply::Int(self.int()), Reply::Int(self.int()), Reply::Text(self.text())])
            }
            "exists" | "watch" => Reply::List(vec![session, Reply::Int(self.int()), Reply::Int(self.int())]),
            _ => Reply::Nil,
        }
    }

    fn event(&mut self) -> StoreEvent {
        let path: Arc<str> = format!("/locks/x/{}", self.node()).into();
        match self.byte() % 4 {
            0 => StoreEvent::Changed { path },
            1 => StoreEvent::Granted { attempt: AttemptId(1), first: 1, last: 1, at: StoreTime(self.int()) },
            _ => StoreEvent::Gone { path },
        }
    }
}
