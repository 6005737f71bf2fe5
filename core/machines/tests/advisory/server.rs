//! A database that keeps one lock for a connection, and the driver on it, which knows for which attempt.

use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::protocol::{Arg, Layout as _, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::stores::postgres::layouts::advisory;
use lockwright_machines::stores::sql::of_connection::{UNSAID, Wanted};

use crate::setup::Wish;

/// What makes the machine of whoever contends there.
pub fn speaks(_: Wish) -> fn() -> Box<dyn Protocol> {
    || advisory::layout("", Duration::from_secs(3)).protocol("7".into())
}

/// Nothing is watched.
pub type Fired = (usize, Arc<str>);

pub fn told(path: Arc<str>) -> StoreEvent {
    StoreEvent::Gone { path }
}

/// A connection is a session: what was sent on one that is lost is done in it or never.
pub const LATE: bool = false;

/// Nothing is told that could be missed.
pub fn missed() -> Option<StoreEvent> {
    None
}

/// Nobody knows what became of it.
pub fn error(_: &str) -> Reply {
    Reply::Error { code: UNSAID.into(), message: String::new() }
}

#[derive(Clone, Debug, Hash)]
struct Held {
    session: i64,
    attempt: Arc<str>,
    since: i64,
}

#[derive(Clone, Debug, Hash)]
pub struct Server {
    held: Option<Held>,
    clock: i64,
}

impl Server {
    pub fn new() -> Self {
        Server { held: None, clock: 100 }
    }

    /// A request as it leaves.
    pub fn stamped(&self, _: i64, request: Request) -> Request {
        request
    }

    /// Whether whoever has this session and token holds it.
    pub fn holds(&self, session: i64, token: i64) -> bool {
        self.held.as_ref().is_some_and(|held| (held.session, held.since) == (session, token))
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// No directory is removed here.
    pub fn has_empty_directory(&self) -> bool {
        false
    }

    pub fn may_be_cleared(&mut self) {}

    pub fn clear(&mut self) {}

    pub fn execute(&mut self, _: usize, session: i64, request: &Request) -> (Reply, Vec<Fired>) {
        let [Arg::Text(attempt), ..] = request.args.as_slice() else { panic!("{request} names no attempt") };
        let own = self.held.as_ref().filter(|held| held.session == session && held.attempt == *attempt);
        let did = match (Wanted::of(request).map(|(_, wanted)| wanted), own) {
            (Some(Wanted::Take), Some(held)) => held.since,
            (Some(Wanted::Take), None) if self.held.is_none() => {
                self.clock += 1;
                self.held = Some(Held { session, attempt: attempt.clone(), since: self.clock });
                self.clock
            }
            (Some(Wanted::Give), Some(_)) => {
                self.held = None;
                1
            }
            (Some(Wanted::Holds), own) => own.is_some().into(),
            (Some(Wanted::Take | Wanted::Give), None) => 0,
            (None, _) => panic!("{request} is nothing that a session does"),
        };
        (Reply::Int(did), Vec::new())
    }

    /// A connection is silent for too long.
    pub fn end(&mut self, session: i64) -> Vec<Fired> {
        self.held.take_if(|held| held.session == session);
        Vec::new()
    }

    pub fn disconnect(&mut self, _: usize) {}

    /// There are no barriers and no latches.
    pub fn passed(&self, _: u64) -> bool {
        false
    }

    pub fn stands(&self) -> usize {
        0
    }

    pub fn is_open(&self) -> bool {
        false
    }

    pub fn count_down(&mut self) -> Vec<Fired> {
        Vec::new()
    }
}
