//! Locks kept in this process.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::ready;
use std::ops::Bound;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use lockwright_machines::barrier_cell::{self, BarrierCell};
use lockwright_machines::barrier_machine;
use lockwright_machines::in_order::InOrder;
use lockwright_machines::latch_cell::{self, LatchCell};
use lockwright_machines::latch_machine;
use lockwright_machines::lock_cell::{Cell, Surroundings, Waiter};
use lockwright_machines::native_machine;
use lockwright_machines::shared_cell::{SharedCell, SharedInMemory};
use lockwright_machines::shared_machine;

use super::layouts::native::layout;
use crate::error::{Error, Kind, Result};
use crate::platform::clock;
use crate::platform::fork::Generational;
use crate::platform::mutex::locked;
use crate::protocol::{Arg, InboxId, Layout, Reply, Request, Requests, StoreEvent};
use crate::session::Inbox;
use crate::share::Primitive;
use crate::stores::{Answered, BoxFuture, Ends, Outcome, Sink, Store, Subscription, Topic};
use crate::time::{StoreTime, Time};

const PAGE: usize = 500;

/// A space of locks; see the store's docs.
#[derive(Debug)]
pub(crate) struct Memory {
    address: Arc<str>,
    layout: Arc<dyn Layout>,
    space: Arc<Space>,
}

#[derive(Default)]
struct Space {
    records: Mutex<Records>,
    inboxes: Mutex<HashMap<InboxId, Weak<dyn Sink>>>,
}

#[derive(Default)]
struct Records {
    by_key: BTreeMap<Arc<str>, Record>,
    /// The highest token ever set aside, so that tokens rise though idle records go.
    highest: u64,
    /// At how many records it is looked whether some are latches or barriers that nobody uses.
    crowded: usize,
}

enum Record {
    Lock(Cell, InOrder<Waiter>),
    Shared(SharedCell, SharedInMemory),
    Latch(LatchCell, latch_cell::LatchInMemory),
    Barrier(BarrierCell, barrier_cell::BarrierInMemory),
}

/// A request as one of the kinds of record takes it.
enum Procedure {
    Lock(native_machine::Procedure),
    Shared(shared_machine::Procedure),
    Latch(latch_machine::Procedure),
    Barrier(barrier_machine::Procedure),
}

impl Procedure {
    fn read(request: &Request) -> Option<Self> {
        let lock = native_machine::Procedure::read(request).map(Procedure::Lock);
        let shared = || shared_machine::Procedure::read(request).map(Procedure::Shared);
        let latch = || latch_machine::Procedure::read(request).map(Procedure::Latch);
        let barrier = || barrier_machine::Procedure::read(request).map(Procedure::Barrier);
        lock.or_else(shared).or_else(latch).or_else(barrier)
    }

    /// The record that it makes where there is none.
    fn record(&self) -> Record {
        match self {
            Procedure::Lock(_) => Record::Lock(Cell::default(), InOrder::default()),
            Procedure::Shared(_) => Record::Shared(SharedCell::default(), SharedInMemory::default()),
            Procedure::Latch(_) => Record::Latch(LatchCell::default(), latch_cell::LatchInMemory::default()),
            Procedure::Barrier(_) => Record::Barrier(BarrierCell::default(), barrier_cell::BarrierInMemory::default()),
        }
    }
}

impl Record {
    fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> std::result::Result<Reply, Infallible> {
        match (self, procedure) {
            (Record::Lock(cell, line), Procedure::Lock(procedure)) => procedure.run(cell, line, env),
            (Record::Shared(cell, kept), Procedure::Shared(procedure)) => procedure.run(cell, kept, env),
            (Record::Latch(cell, kept), Procedure::Latch(procedure)) => procedure.run(cell, kept, env),
            (Record::Barrier(cell, kept), Procedure::Barrier(procedure)) => procedure.run(cell, kept, env),
            // A look tells of whatever is there.
            (Record::Shared(cell, kept), Procedure::Lock(native_machine::Procedure::Inspect)) => {
                shared_machine::Procedure::Inspect.run(cell, kept, env)
            }
            (Record::Latch(cell, kept), Procedure::Lock(native_machine::Procedure::Inspect)) => {
                latch_machine::Procedure::Inspect.run(cell, kept, env)
            }
            (Record::Barrier(cell, kept), Procedure::Lock(native_machine::Procedure::Inspect)) => {
                barrier_machine::Procedure::Inspect.run(cell, kept, env)
            }
            (Record::Lock(..), _) => Ok(shared_machine::foreign("lock")),
            (Record::Shared(cell, _), _) => {
                Ok(shared_machine::foreign(cell.primitive.map_or("shared record", Primitive::name)))
            }
            (Record::Latch(..), _) => Ok(shared_machine::foreign("latch")),
            (Record::Barrier(..), _) => Ok(shared_machine::foreign("barrier")),
        }
    }

    /// The highest token it set aside.
    fn last(&self) -> u64 {
        match self {
            Record::Lock(cell, _) => cell.last,
            Record::Shared(cell, _) => cell.last,
            Record::Latch(..) => 0,
            // What a barrier made anew counts from is told in thousandths of it.
            Record::Barrier(cell, _) => cell.generation.saturating_mul(1000),
        }
    }

    /// Whether nothing would be different if it were not there.
    fn is_idle(&self, now: StoreTime) -> bool {
        match self {
            Record::Lock(cell, line) => cell.hold.is_none() && line.is_empty(),
            Record::Shared(cell, kept) => !cell.resized && cell.used == 0 && kept.line.is_empty(),
            Record::Latch(cell, _) => cell.look(now).is_none(),
            Record::Barrier(cell, _) => !cell.is_there(now),
        }
    }
}

impl Memory {
    pub(crate) fn new(space: &str, address: String, prefix: &str) -> Self {
        let layout = Arc::new(layout(prefix));
        Memory { address: address.into(), layout, space: space_named(space) }
    }

    fn answer(&self, requests: &[Request]) -> Answered {
        let sent = clock::now();
        let replies = requests.iter().map(|request| self.space.execute(request)).collect::<Result<_>>();
        let outcome = match replies {
            Ok(replies) => Outcome::Replies(replies),
            Err(error) => Outcome::NotSent(error),
        };
        Answered { sent, outcome }
    }
}

impl Space {
    fn execute(&self, request: &Request) -> Result<Reply> {
        let mut records = locked(&self.records);
        if request.call.name == "list" {
            return Ok(records.page(request));
        }
        let procedure = Procedure::read(request)
            .ok_or_else(|| Error::new(Kind::Internal, "acquire", format!("memory has no procedure for {request}")))?;
        let alive = |inbox| locked(&self.inboxes).get(&inbox).is_some_and(|sink| sink.strong_count() > 0);
        let mut env = Surroundings {
            now: StoreTime((clock::now().as_nanos() / 1000) as i64),
            token_floor: records.highest + 1,
            alive: &alive,
            pushes: Vec::new(),
        };
        records.sweep(env.now);
        let is_there = records.by_key.get(&request.key).is_some_and(|record| !record.is_idle(env.now));
        if !is_there && matches!(procedure, Procedure::Lock(native_machine::Procedure::Inspect)) {
            return Ok(Reply::Nil);
        }
        let known = records.by_key.entry(request.key.clone()).or_insert_with(|| procedure.record());
        if known.is_idle(env.now) {
            // Of another kind, it makes room.
            *known = procedure.record();
        }
        let record = known;
        let Ok(reply) = record.run(procedure, &mut env);
        let (last, idle) = (record.last(), record.is_idle(env.now));
        records.highest = records.highest.max(last);
        if idle {
            records.by_key.remove(&request.key);
        }
        let pushes = env.pushes;
        drop(records);
        self.push(&request.key, &pushes);
        Ok(reply)
    }

    fn push(&self, key: &str, pushes: &[(InboxId, StoreEvent)]) {
        for (inbox, event) in pushes {
            let sink = locked(&self.inboxes).get(inbox).and_then(Weak::upgrade);
            if let Some(sink) = sink {
                sink.pushed(key, event);
            }
        }
    }
}

impl Records {
    /// Latches and barriers go when nobody used them for long, and nobody asks for them then.
    fn sweep(&mut self, now: StoreTime) {
        if self.by_key.len() >= self.crowded {
            self.by_key.retain(|_, record| !record.is_idle(now));
            self.crowded = 2 * self.by_key.len() + PAGE;
        }
    }

    fn page(&self, request: &Request) -> Reply {
        let cursor = match request.args.first() {
            Some(Arg::Text(cursor)) if !cursor.is_empty() => Bound::Excluded(cursor.clone()),
            _ => Bound::Unbounded,
        };
        let names: Vec<_> = self.by_key.range((cursor, Bound::Unbounded)).take(PAGE).map(|(key, _)| &**key).collect();
        let next = if names.len() == PAGE { names[PAGE - 1] } else { "" };
        Reply::List(std::iter::once(next).chain(names.iter().copied()).map(|text| Reply::Text(text.into())).collect())
    }
}

fn space_named(name: &str) -> Arc<Space> {
    type Spaces = Mutex<HashMap<String, Arc<Space>>>;
    static SPACES: OnceLock<Generational<Spaces>> = OnceLock::new();
    let spaces = SPACES.get_or_init(|| Generational::new(Arc::default())).get_or_make(Arc::default);
    locked(spaces).entry(name.to_owned()).or_default().clone()
}

impl Store for Memory {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        std::slice::from_ref(&self.layout)
    }

    fn call(&self, requests: &Requests, _: Time) -> Answered {
        self.answer(requests)
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, _: Time) -> BoxFuture<'a, Answered> {
        Box::pin(ready(self.answer(requests)))
    }

    /// What was asked for is done before anybody can go away.
    fn void_after(&self, given_up: Time, _: Time) -> Time {
        given_up
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let Topic::Inbox(inbox) = topic else { return Subscription::of(Inbox::Unavailable) };
        let mut inboxes = locked(&self.space.inboxes);
        inboxes.retain(|_, sink| sink.strong_count() > 0);
        inboxes.insert(inbox, sink);
        drop(inboxes);
        let space = self.space.clone();
        Subscription::of(Inbox::Live).until(Arc::new(Listened { space, inbox }))
    }
}

/// An inbox that is listened to.
struct Listened {
    space: Arc<Space>,
    inbox: InboxId,
}

impl Ends for Listened {
    fn ended(&self) {
        locked(&self.space.inboxes).remove(&self.inbox);
    }
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Space")
    }
}
