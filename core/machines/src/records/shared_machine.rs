//! The protocol of shared records, for read/write locks and semaphores: one machine, and one wire form, for every store
//! that can run a procedure atomically. It is to [`crate::shared_cell`] what [`crate::native_machine`] is to
//! [`crate::lock_cell`].
//!
//! ```text
//!   acquire  claimant ttl-us not-after card wait primitive units capacity in-order
//!                                           ->  token
//!                                           |   [0, now, remaining-us, -]         no room
//!                                           |   [1, now, remaining-us, position]  queued
//!                                           |   [2, now]                          late
//!                                           |   [3, token, -, -]                  as a token alone
//!                                           with one more number behind the four where the record has another capacity: that
//!   renew    claimant ttl-us                ->  1 | 0
//!   change   claimant token ttl-us not-after units
//!                                           ->  [1, token] | 0 gone | [0] refused | [2, now] late
//!   release  claimant                       ->  1 | 0 (it held nothing)
//!   undo     claimant                       ->  1
//! ```
//!
//! A request for more units than there are is refused with the error `TOOMANY`. Resending an acquire or a change is
//! safe: the holder is told its token again, a waiter keeps its place. Each holder is a contender of its own: there are
//! no blocks of tokens, no hand-offs inside a process, and nothing to yield. Source: own layout,
//! `docs/adr/0019-one-record-for-what-is-shared.md`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::{Arguments, micros, token_arg};
use crate::cell::{Cell, Runs, foreign};
use crate::guarantee::{Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection, Part, ReleaseOutcome, Sharing, TOLD, Waiting};
use crate::lock_cell::{Claimant, Surroundings, Waiter};
use crate::native_machine::NativeLayout;
use crate::protocol::{
    Arg, Call, Change, Grant, Input, Inquiry, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests, Step,
    StoreEvent, Term, Traits, Verdict, Wait,
};
use crate::replies::{answered, done, duration, int, is_far, nonsense, numbers, operation, refusal, shown};
use crate::share::{Primitive, Share};
use crate::shared_cell::{self, Acquired, Changed, Seeker, SharedCell, SharedInMemory, SharedStorage};
use crate::time::StoreTime;
use crate::token::Tokens;

/// The procedures of one store for shared records.
#[derive(Debug)]
pub struct SharedCalls {
    /// Become a holder or queue.
    pub acquire: Call,
    /// Extend the lease.
    pub renew: Call,
    /// Hold more or fewer units.
    pub change: Call,
    /// Give back.
    pub release: Call,
    /// Leave and give back.
    pub undo: Call,
    /// End a hold.
    pub break_hold: Call,
    /// Give it another size.
    pub resize: Call,
}

impl SharedCalls {
    /// Those that a store may be asked for by a digest, as
    /// [`Calls::by_digest`](crate::native_machine::Calls::by_digest).
    pub fn by_digest(&self) -> [&Call; 6] {
        let SharedCalls { acquire, renew, change, release, undo: _, break_hold, resize } = self;
        [acquire, release, renew, change, break_hold, resize]
    }

    /// The procedures of a store that runs [`crate::shared_cell`]: their names say it all.
    pub const fn of_cell() -> Self {
        const fn call(name: &'static str, batch: bool) -> Call {
            Call { name, body: &[], batch }
        }
        SharedCalls {
            acquire: call("shared.acquire", false),
            renew: call("shared.renew", true),
            change: call("shared.change", false),
            release: call("shared.release", false),
            undo: call("shared.undo", false),
            break_hold: call("shared.break", false),
            resize: call("shared.resize", false),
        }
    }
}

/// The layout of shared records beside a store's `native` locks: the same keys, so that nothing is two things at once.
pub struct SharedLayout {
    /// The locks'.
    pub native: NativeLayout,
    /// What is wanted.
    pub share: Share,
}

impl fmt::Debug for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedLayout({}, {:?})", (self.native.guarantees)().store, self.share)
    }
}

impl Layout for SharedLayout {
    fn name(&self) -> &'static str {
        self.native.name()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { reentrant: false, ..(self.native.guarantees)() }
    }

    fn key(&self, name: &str) -> crate::Result<Arc<str>> {
        self.native.key(name)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        let Guarantees { push, token, .. } = self.guarantees();
        let clocked = token == TokenRises::WithStoreClock;
        Box::new(SharedMachine { clocked, ..SharedMachine::new(self.native.shared, key, self.share, push) })
    }

    fn share(&self) -> Option<Share> {
        Some(self.share)
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.native.look(name, key, [Primitive::RwLock.name(), Primitive::Semaphore.name()])
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let request = Request::new(&self.native.shared.break_hold, key, [token_arg(token)]);
        Inquiry::of(request, |reply| done("break", reply, refusal))
    }

    fn other_permits(&self, replies: &[Reply]) -> Option<u32> {
        match replies {
            [Reply::List(list)] => list.get(4).and_then(int).and_then(|permits| u32::try_from(permits).ok()),
            _ => None,
        }
    }

    fn resize(&self, key: Arc<str>, permits: u32) -> Option<Inquiry<'_, ()>> {
        let is_semaphore = self.share.primitive == Primitive::Semaphore;
        is_semaphore.then(|| resized(Request::new(&self.native.shared.resize, key, [i64::from(permits).into()])))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        self.native.list()
    }
}

/// Gives a semaphore another size by `request`, which is answered 1.
pub(crate) fn resized<'a>(request: Request) -> Inquiry<'a, ()> {
    Inquiry::of(request, |reply| match done("resize", reply, refusal)? {
        true => Ok(()),
        false => Err(nonsense("resize", std::slice::from_ref(reply))),
    })
}

/// Reads what a layout answers to a look at the record `name`.
pub(crate) fn inspected(layout: &str, name: &str, reply: &Reply) -> crate::Result<Inspection> {
    if let Reply::Error { code, message } = reply {
        return Err(refusal("inspect", code, message));
    }
    let nothing = Inspection::of_nothing(layout, name);
    let seen = match reply {
        Reply::Nil => Some(nothing),
        Reply::List(list) => read_inspection(list, nothing),
        _ => None,
    };
    seen.ok_or_else(|| nonsense("inspect", std::slice::from_ref(reply)))
}

/// Reads what [`inspection`](crate::inspection) has of a read/write lock and a semaphore, at whose end stands
/// `[holders, units]` where more hold than a reply has room for.
pub(crate) fn read_inspection(list: &[Reply], nothing: Inspection) -> Option<Inspection> {
    let [Reply::Text(primitive), capacity, waiters, Reply::List(queue), holders @ ..] = list else { return None };
    let primitive = Primitive::named(primitive)?;
    let capacity = u32::try_from(int(capacity)?).ok()?;
    let permits = (primitive == Primitive::Semaphore && capacity > 0).then_some(capacity);
    let (holders, more) = match holders {
        [listed @ .., Reply::List(more)] if more.len() == 2 => (listed, more.as_slice()),
        all => (all, [].as_slice()),
    };
    let more = more.iter().map(|count| u64::try_from(int(count)?).ok()).collect::<Option<Vec<_>>>()?;
    let (unlisted, units) = if let [unlisted, units] = more[..] { (unlisted, units) } else { (0, 0) };
    let parts = holders.iter().map(read_part).collect::<Option<Vec<_>>>()?;
    let holders: Vec<_> = parts.into_iter().filter(|part| !part.holder.remaining.is_zero()).collect();
    let held = holders.iter().map(|part| u64::from(part.units)).fold(units, u64::saturating_add);
    Some(Inspection {
        holder: holders.first().map(|part| part.holder.clone()),
        waiters: u64::try_from(int(waiters)?).ok()?,
        queue: queue.iter().map(read_waiting).collect::<Option<_>>()?,
        primitive: Some(primitive.name()),
        shared: Some(Sharing { primitive, permits, holders, unlisted, held }),
        ..nothing
    })
}

fn read_waiting(reply: &Reply) -> Option<Waiting> {
    let Reply::List(list) = reply else { return None };
    let [units, Reply::Text(card)] = list.as_slice() else { return None };
    Some(Waiting { card: Card::decode(card), units: u32::try_from(int(units)?).ok()?, ..Waiting::default() })
}

fn read_part(reply: &Reply) -> Option<Part> {
    let Reply::List(list) = reply else { return None };
    let [Reply::Text(owner), held, remaining, token, units, Reply::Text(card)] = list.as_slice() else { return None };
    let token = u64::try_from(int(token)?).ok()?;
    let holder = Holder {
        owner: shown(owner),
        card: Card::decode(card),
        held_for: Some(int(held)?).filter(|held| *held >= 0).map(duration),
        remaining: duration(int(remaining)?),
        first_token: token,
        last_token: token,
    };
    Some(Part { holder, units: u32::try_from(int(units)?).ok()? })
}

/// The machine.
#[derive(Clone, Debug)]
pub struct SharedMachine {
    calls: &'static SharedCalls,
    key: Arc<str>,
    share: Share,
    push: Push,
    /// Tokens are the store's clock.
    clocked: bool,
}

impl SharedMachine {
    /// The machine for `share` of the record kept under `key`, by the procedures `calls` of a store that can `push`.
    pub fn new(calls: &'static SharedCalls, key: Arc<str>, share: Share, push: bool) -> Self {
        let push = if push { Push::Inbox } else { Push::None };
        SharedMachine { calls, key, share, push, clocked: false }
    }

    fn begin(&self, intent: &Intent) -> Request {
        let me = Arg::Text(Claimant::of(intent.terms()).text());
        match intent {
            Intent::Acquire { terms, wait, .. } => {
                let Share { primitive, units, capacity, in_order } = self.share;
                let mut request = self.request(&self.calls.acquire, [me, micros(terms.ttl), Arg::NotAfter]);
                request.args.extend([terms.card.clone().into(), Arg::Int((*wait).into()), primitive.name().into()]);
                request.args.extend([units.into(), capacity.into(), i64::from(in_order)].map(Arg::Int));
                request
            }
            Intent::Renew { ttl, .. } => self.request(&self.calls.renew, [me, micros(*ttl)]),
            Intent::Release { .. } => self.request(&self.calls.release, [me]),
            Intent::Undo { .. } => self.request(&self.calls.undo, [me]),
        }
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }
}

/// What the machine of a shared record says to an answer.
pub(crate) fn answer(op: Op, reply: &Reply) -> Option<Step> {
    if let Reply::Error { code, message } = reply {
        return Some(Step::Done(Verdict::Failed(refusal(operation(op), code, message))));
    }
    Some(match op {
        Op::Acquire => return acquired(reply),
        Op::Renew => Step::Done(renewed(reply)?),
        Op::Release => Step::Done(Verdict::Released(match int(reply)? {
            0 => ReleaseOutcome::Expired,
            _ => ReleaseOutcome::Released,
        })),
        Op::Undo => {
            int(reply)?;
            Step::Done(Verdict::Undone)
        }
    })
}

impl Protocol for SharedMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => Step::Ask(Requests::from_iter([self.begin(&intent)])),
            Input::Reply(op, replies) => answered(op, replies, |reply| answer(op, reply)),
            Input::Event(StoreEvent::Granted { first, at, .. }) if self.clocked && is_far(*first, *at) => {
                Step::Done(Verdict::Implausible)
            }
            Input::Event(StoreEvent::Granted { first, at, .. }) => granted(*first, Term::Pushed(*at)),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn change(&mut self, change: Change) -> Step {
        let Change { terms, token, ttl, units } = change;
        let me = Arg::Text(Claimant::of(&terms).text());
        let args = [me, token_arg(token), micros(ttl), Arg::NotAfter, Arg::Int(units.into())];
        Step::Ask(Requests::from_iter([self.request(&self.calls.change, args)]))
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: self.push, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (&self.key, self.share).hash(&mut state);
    }
}

/// A grant under `token`, which only a push can have as 0.
fn granted(token: u64, term: Term) -> Step {
    let granted = |tokens| Verdict::Granted(Grant { tokens: Some(tokens), term, prev: None });
    Step::Done(Tokens::one(token).map_or(Verdict::Implausible, granted))
}

fn acquired(reply: &Reply) -> Option<Step> {
    let list = match reply {
        Reply::Int(token) => return Some(granted(token_of(*token)?, Term::FromRequest)),
        Reply::List(list) => list.as_slice(),
        _ => return None,
    };
    let at = |i: usize| list.get(i).and_then(int);
    let now = StoreTime(at(1)?);
    Some(match at(0)? {
        0 => Step::Done(Verdict::Held { remaining: duration(at(2)?), at: Some(now), prev: None }),
        1 => Step::Wait(Wait {
            at: Some(now),
            remaining: duration(at(2)?),
            position: u32::try_from(at(3)?).ok()?,
            prev: None,
        }),
        2 => Step::Done(Verdict::Late { at: now }),
        3 => return Some(granted(token_of(at(1)?)?, Term::FromRequest)),
        _ => return None,
    })
}

/// The answer to a renewal, which is a number, or to a change.
fn renewed(reply: &Reply) -> Option<Verdict> {
    let list = match reply {
        Reply::Int(0) => return Some(Verdict::Gone(ReleaseOutcome::Expired)),
        Reply::Int(_) => return Some(Verdict::Renewed),
        Reply::List(list) => list.as_slice(),
        _ => return None,
    };
    Some(match list.iter().map(int).collect::<Option<Vec<_>>>()?[..] {
        [0] => Verdict::Changed(None),
        [1, token] => Verdict::Changed(Some(token_of(token)?)),
        [2, at] => Verdict::Late { at: StoreTime(at) },
        _ => return None,
    })
}

fn token_of(token: i64) -> Option<u64> {
    u64::try_from(token).ok().filter(|token| *token > 0)
}

/// A request of this layout as the stores that run [`crate::shared_cell`] read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// See [`SharedCell::acquire`].
    Acquire(shared_cell::Acquire),
    /// See [`SharedCell::renew`].
    Renew(Claimant, Duration),
    /// See [`SharedCell::change`].
    Change(shared_cell::Change),
    /// See [`SharedCell::release`].
    Release(Claimant),
    /// See [`SharedCell::undo`].
    Undo(Claimant),
    /// Look at it; asked for by a look at whatever lies there.
    Inspect,
    /// See [`SharedCell::break_hold`].
    Break(u64),
    /// See [`SharedCell::resize`].
    Resize(u32),
}

impl Cell for SharedCell {
    type Procedure = Procedure;
    type InMemory = SharedInMemory;

    const INSPECT: Procedure = Procedure::Inspect;

    fn read(request: &Request) -> Option<Procedure> {
        let args = Arguments(&request.args);
        let units = |i: usize| args.number(i).and_then(|n| u32::try_from(n).ok());
        Some(match request.call.name {
            "shared.acquire" => {
                let who = Waiter { owner: args.claimant(0)?, card: args.text(3)?.to_owned() };
                Procedure::Acquire(shared_cell::Acquire {
                    asker: Seeker { who, units: units(6)?, in_order: args.number(8)? != 0 },
                    primitive: Primitive::named(args.text(5)?)?,
                    capacity: units(7)?,
                    ttl: duration(args.number(1)?),
                    not_after: StoreTime(args.number(2)?),
                    wait: args.number(4)? != 0,
                })
            }
            "shared.renew" => Procedure::Renew(args.claimant(0)?, duration(args.number(1)?)),
            "shared.change" => Procedure::Change(shared_cell::Change {
                owner: args.claimant(0)?,
                token: args.token(1)?,
                ttl: duration(args.number(2)?),
                not_after: StoreTime(args.number(3)?),
                units: units(4)?,
            }),
            "shared.release" => Procedure::Release(args.claimant(0)?),
            "shared.undo" => Procedure::Undo(args.claimant(0)?),
            "shared.break" => Procedure::Break(args.token(0)?),
            "shared.resize" => Procedure::Resize(units(0)?),
            _ => return None,
        })
    }

    fn only_looks(procedure: &Procedure) -> bool {
        matches!(procedure, Procedure::Inspect)
    }

    fn word(&self) -> &'static str {
        self.primitive.map_or("shared record", Primitive::name)
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn is_idle(&self, beside: &SharedInMemory, _: StoreTime) -> bool {
        !self.resized && self.used == 0 && beside.line.is_empty()
    }
}

impl<S: SharedStorage> Runs<S> for SharedCell {
    type Error = S::Error;

    fn run(&mut self, procedure: Procedure, storage: &mut S, env: &mut Surroundings<'_>) -> Result<Reply, S::Error> {
        if let Some(other) = self.primitive.filter(|is| procedure.only_for().is_some_and(|wanted| wanted != *is)) {
            return Ok(foreign(other.name()));
        }
        let now = env.now.0;
        Ok(match &procedure {
            Procedure::Acquire(ask) => {
                let answer = self.acquire(storage, env, ask)?;
                acquired_reply(now, answer, Some(self.capacity).filter(|capacity| *capacity != ask.capacity))
            }
            Procedure::Renew(owner, ttl) => Reply::Int(self.renew(storage, env, owner, *ttl)?.into()),
            Procedure::Change(change) => match self.change(storage, env, change)? {
                Changed::Done(token) => numbers(&[1, i64::try_from(token).unwrap_or(i64::MAX)]),
                Changed::Refused => numbers(&[0]),
                Changed::Gone => Reply::Int(0),
                Changed::Late => numbers(&[2, now]),
            },
            Procedure::Release(owner) => Reply::Int(self.release(storage, env, owner)?.into()),
            Procedure::Undo(owner) => {
                self.undo(storage, env, owner)?;
                Reply::Int(1)
            }
            Procedure::Inspect => match self.primitive {
                Some(primitive) => inspect_reply(primitive, self, storage, env.now)?,
                None => Reply::Nil,
            },
            Procedure::Break(token) => Reply::Int(self.break_hold(storage, env, *token)?.into()),
            Procedure::Resize(permits) => {
                self.resize(storage, env, Primitive::Semaphore, *permits)?;
                Reply::Int(1)
            }
        })
    }
}

impl Procedure {
    /// The only primitive that it can be asked of.
    fn only_for(&self) -> Option<Primitive> {
        match self {
            Procedure::Acquire(ask) => Some(ask.primitive),
            Procedure::Resize(_) => Some(Primitive::Semaphore),
            _ => None,
        }
    }
}

/// The answer of a record with `other` units than was said.
fn acquired_reply(now: i64, answer: Acquired, other: Option<u32>) -> Reply {
    let us = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    let says = |list: [i64; 4], without: usize| match other {
        Some(units) => numbers(&[list[0], list[1], list[2], list[3], units.into()]),
        None => numbers(&list[..without]),
    };
    match answer {
        Acquired::Granted(token) => match (i64::try_from(token).unwrap_or(i64::MAX), other) {
            (token, None) => Reply::Int(token),
            (token, Some(_)) => says([3, token, 0, 0], 4),
        },
        Acquired::Held(remaining) => says([0, now, us(remaining), 0], 3),
        Acquired::Queued { remaining, position } => says([1, now, us(remaining), position.into()], 4),
        Acquired::Late => numbers(&[2, now]),
        Acquired::TooMany(permits) => {
            Reply::Error { code: "TOOMANY".into(), message: format!("it has {permits} permits") }
        }
    }
}

fn inspect_reply<S: SharedStorage>(
    primitive: Primitive,
    cell: &SharedCell,
    storage: &mut S,
    now: StoreTime,
) -> Result<Reply, S::Error> {
    let waiting = |seeker: Seeker| Reply::List(vec![Reply::Int(seeker.units.into()), Reply::Text(seeker.who.card)]);
    let head = [
        Reply::Text(primitive.name().into()),
        Reply::Int(cell.capacity.into()),
        Reply::Int(storage.waiting()?.into()),
        Reply::List(storage.list(TOLD)?.into_iter().map(waiting).collect()),
    ];
    let holders = storage.holders()?.into_iter().map(|holder| {
        Reply::List(vec![
            Reply::Text(holder.owner.to_string()),
            Reply::Int(now.micros_since(holder.since)),
            Reply::Int(holder.expires.micros_since(now).max(0)),
            Reply::Int(i64::try_from(holder.token).unwrap_or(i64::MAX)),
            Reply::Int(holder.units.into()),
            Reply::Text(holder.card),
        ])
    });
    Ok(Reply::List(head.into_iter().chain(holders).collect()))
}
