//! Locks kept in this process.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::future::ready;
use std::ops::Bound;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use lockwright_machines::cell_layout;
use lockwright_machines::engine::{Backend, Found, Procedure, Record, RecordKind, execute};
use lockwright_machines::lock_cell::Surroundings;

use super::layouts::native::layout;
use crate::error::{Error, Kind, Result};
use crate::platform::clock;
use crate::platform::fork::Generational;
use crate::platform::mutex::locked;
use crate::protocol::{InboxId, Layout, Reply, Request, Requests, StoreEvent};
use crate::session::Inbox;
use crate::stores::adapter::{Answered, BoxFuture, Ends, Outcome, Sink, Store, Subscription, Topic};
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
        if cell_layout::lists(request) {
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
        let mut key = Key { records: &mut records, key: &request.key, now: env.now };
        let Ok(reply) = execute(&mut key, procedure, &mut env);
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
            self.by_key.retain(|_, record| record.is_in_use(now));
            self.crowded = 2 * self.by_key.len() + PAGE;
        }
    }

    fn page(&self, request: &Request) -> Reply {
        // Before all keys, of which none is empty.
        let (_, cursor) = cell_layout::page_asked(request);
        let behind = self.by_key.range::<str, _>((Bound::Excluded(cursor), Bound::Unbounded));
        let keys: Vec<_> = behind.take(PAGE).map(|(key, _)| key.to_string()).collect();
        let next = if keys.len() == PAGE { keys.last().cloned() } else { None };
        cell_layout::page(next, keys)
    }
}

/// The record under one key.
struct Key<'a> {
    records: &'a mut Records,
    key: &'a Arc<str>,
    now: StoreTime,
}

impl Backend for Key<'_> {
    type Error = Infallible;

    fn found(&mut self, _: RecordKind) -> std::result::Result<Option<Found>, Infallible> {
        let known = self.records.by_key.get(self.key).map(|record| record.found(self.now));
        Ok(known.filter(|found| found.in_use))
    }

    /// What is in nobody's use is not found.
    fn make_room(&mut self, _: RecordKind) -> std::result::Result<(), Infallible> {
        Ok(())
    }

    fn run(&mut self, procedure: Procedure, env: &mut Surroundings<'_>) -> std::result::Result<Reply, Infallible> {
        let kind = procedure.kind();
        let record = self.records.by_key.entry(self.key.clone()).or_insert_with(|| Record::new(kind));
        if !record.is_in_use(self.now) {
            *record = Record::new(kind);
        }
        let reply = record.run(procedure, env);
        self.records.highest = self.records.highest.max(record.last());
        if !record.is_in_use(self.now) {
            self.records.by_key.remove(self.key);
        }
        Ok(reply)
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
