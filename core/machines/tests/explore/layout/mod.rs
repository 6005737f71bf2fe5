//! What a layout is to the explorer: its machine, and a model of what the store does with each request. One file a
//! layout.

pub mod barrier;
pub mod joined;
pub mod joined_store;
pub mod latch;
pub mod line;
pub mod native;
pub mod redisson_shared;
pub mod redisson_store;
pub mod shared;
pub mod table;
pub mod tokenless;
pub mod tokenless_store;

use std::convert::Infallible;
use std::fmt::Debug;
use std::time::Duration;

use lockwright_machines::barrier_cell::Fate;
use lockwright_machines::cell::Runs;
use lockwright_machines::lock_cell::Surroundings;
use lockwright_machines::protocol::{AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright_machines::share::ALL;
use lockwright_machines::time::{StoreTime, Time};

use crate::view::{Mix, View};

pub type Checked<T> = Result<T, String>;

/// What of a lock a client's tasks take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// All of it.
    Sole,
    Reader,
    Writer,
    /// One of two permits.
    One,
    /// Two of two permits.
    Two,
    /// The same, overtaken by nobody.
    TwoInOrder,
    /// To be let through once it is open, as everybody is.
    Waiter,
    /// To go on together with others.
    Party,
}

impl Role {
    /// How much that is, of `Setup::capacity`.
    pub fn units(self) -> u32 {
        match self {
            Role::Sole | Role::Reader | Role::One | Role::Waiter | Role::Party => 1,
            Role::Two | Role::TwoInOrder => 2,
            Role::Writer => ALL,
        }
    }
}

/// What surrounds a call.
pub struct Around<'a> {
    pub now: StoreTime,
    /// The highest token that was used.
    pub top: u64,
    /// Tokens must be at least this.
    pub token_floor: u64,
    /// Whether somebody listens at an inbox.
    pub alive: &'a dyn Fn(InboxId) -> bool,
}

/// One lock as a store keeps it under a layout.
pub trait Record: Clone + Debug + Default + 'static {
    /// A request, as the store reads it.
    type Call: Clone + Debug;

    /// Fencing tokens that go with one grant; 0 where there are none.
    const BLOCK: u64;

    /// As how many have to wait at the same time for any of them to go on.
    const PARTIES: usize = 1;

    /// The shipped protocol of the layout.
    fn machine() -> Box<dyn Protocol>;

    /// The same as a client in that role speaks it.
    fn speaker(_: Role) -> fn() -> Box<dyn Protocol> {
        Self::machine
    }

    /// What gives it so many units.
    fn resize(_: u32) -> Option<Self::Call> {
        None
    }

    /// What somebody does to it beside all clients, as the one of that number, if it is not too late.
    fn operation(_: usize, _not_after: StoreTime) -> Option<Self::Call> {
        None
    }

    /// Reads what a machine wrote.
    fn read(request: &Request) -> Option<Self::Call>;

    /// Runs it; the reply, and what is pushed.
    fn run(&mut self, call: &Self::Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>);

    /// For how long a renewal makes the lease last, if it is one.
    fn renews(call: &Self::Call) -> Option<Duration>;

    /// Who holds the lock, or held it last and nobody noticed yet, and until when.
    fn holds(&self) -> impl Iterator<Item = (AttemptId, StoreTime)>;

    /// Until when the longest hold lasts of those whose attempt `is` one.
    fn lasts(&self, is: &dyn Fn(AttemptId) -> bool) -> Option<StoreTime> {
        self.holds().filter(|(owner, _)| is(*owner)).map(|(_, expires)| expires).max()
    }

    /// What became of the one attempt of that process, of which nobody may be told otherwise.
    fn fate(&self, _process: usize) -> Option<Fate> {
        None
    }

    /// Who waits, in order.
    fn line(&self) -> impl Iterator<Item = AttemptId>;

    /// The highest token ever set aside.
    fn last(&self) -> u64;

    /// Whether `call` may change `before` into this.
    fn check(&self, before: &Self, call: &Self::Call, around: &Around<'_>) -> Checked<()>;

    /// What all clients see alike.
    fn fingerprint(&self, view: &View, state: &mut Mix);

    /// What concerns `client` alone: whether it holds, and where it waits.
    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix);

    fn fingerprint_call(call: &Self::Call, sent: Time, view: &View, state: &mut Mix);

    /// `dated` when the client learns the store's clock from replies.
    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix);

    /// In words.
    fn explain(call: &Self::Call) -> String;

    /// In words; `tick` in microseconds, counted from `epoch`.
    fn explain_reply(reply: &Reply, tick: i64, epoch: i64) -> String;

    /// The record in words.
    fn describe(&self, now: StoreTime, tick: i64) -> String;
}

/// Runs a request on a cell, whose record a model of a store is.
pub fn run_cell<C, S>(
    cell: &mut C,
    beside: &mut S,
    call: C::Procedure,
    around: &Around<'_>,
) -> (Reply, Vec<(InboxId, StoreEvent)>)
where
    C: Runs<S, Error = Infallible>,
{
    let Around { now, token_floor, alive, .. } = *around;
    let mut env = Surroundings { now, token_floor, alive, pushes: Vec::new() };
    let Ok(reply) = cell.run(call, beside, &mut env);
    (reply, env.pushes)
}

pub fn name_of_client(client: usize) -> char {
    char::from(b'A' + client as u8)
}

pub fn name_of(attempt: AttemptId) -> String {
    format!("{}{}", name_of_client(crate::process::process_of(attempt)), attempt.0 as u32)
}
