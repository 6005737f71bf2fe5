//! The `native` layout's protocol: one machine, and one wire form, for every store that can run a procedure atomically.
//!
//! Redis runs the procedures as Lua, memory and SQLite run [`crate::lock_cell`]. Every conversation is one request:
//!
//! ```text
//!   acquire  claimant ttl-us not-after card place [prev used] ->  first token
//!                                                             |   [0, now, remaining-us, prev]            held
//!                                                             |   [1, now, remaining-us, position, prev]  queued
//!                                                             |   [2, now]                                late
//!                                                             |   [3, first token, prev]                  granted; prev was not simply given back
//!   renew    claimant ttl-us                                  ->  1 | 0
//!   release  claimant used                                    ->  1 | 0 (nobody holds it) | card of the thief
//!   undo     claimant prev                                    ->  1
//!   together policy keys.. (acquire's arguments)..            ->  [answer to each]
//!   pass     claimant from ttl-us not-after card              ->  first token
//!                                                             |   0                                     from does not hold it
//!                                                             |   [2, now]                              late
//! ```
//!
//! `place` is 0 for who does not queue, else one more than its rank.
//! `prev` is 0 given back (or none), 1 expired, 2 stolen, 3 unknown. Resending an acquire is safe: the holder is told
//! its tokens again while its lease lasts, and new ones for a new one after that; a waiter keeps its place. Source: own
//! layout; the claim and the one-request yield are described in `docs/adr/0004-native-shared-by-three-stores.md`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::repeat;
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::{Arguments, micros, token_arg};
use crate::barrier_machine::BarrierCalls;
use crate::by_rank::ByRank;
use crate::cell::{Cell, Runs};
use crate::gate::Gate;
use crate::gate_layout::GateLayout;
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::inspection;
use crate::latch_machine::LatchCalls;
use crate::lease::{Card, Holder, Inspection, LOCK, ReleaseOutcome, TOLD, Waiting};
use crate::lock_cell::{self, Acquired, BLOCK, Claimant, Given, LockCell, LockStorage, Place, Surroundings};
use crate::protocol::{
    Arg, Call, Grant, Input, Inquiry, Intent, Layout, Op, Policy, Protocol, Push, Reply, Request, Requests, Step,
    StoreEvent, Term, Terms, Traits, Verdict, Wait,
};
use crate::rank::Rank;
use crate::replies::{answered, done, duration, int, is_far, names, operation, refusal, shown};
use crate::share::Share;
use crate::shared_machine::{SharedCalls, SharedLayout};
use crate::time::StoreTime;
use crate::token::Tokens;

/// The procedures of one store.
#[derive(Debug)]
pub struct Calls {
    /// Become the holder or queue.
    pub acquire: Call,
    /// Extend the lease.
    pub renew: Call,
    /// Give back.
    pub release: Call,
    /// Leave and give back.
    pub undo: Call,
    /// Look at whatever lies there, and change nothing.
    pub inspect: Call,
    /// Take it from its holder.
    pub break_hold: Call,
    /// One page of names.
    pub list: Call,
}

impl Calls {
    /// Those that a store may be asked for by a digest. Clean-up is not among them: it is sent whole, so that after a
    /// lost script cache it needs no second round trip.
    pub fn by_digest(&self) -> [&Call; 6] {
        let Calls { acquire, renew, release, undo: _, inspect, break_hold, list } = self;
        [acquire, release, renew, inspect, break_hold, list]
    }

    /// The procedures of a store that runs [`crate::lock_cell`]: their names say it all.
    pub const fn of_cell() -> Self {
        Calls {
            acquire: call("acquire", false),
            renew: call("renew", true),
            release: call("release", false),
            undo: call("undo", false),
            inspect: call("inspect", false),
            break_hold: call("break", false),
            list: call("list", false),
        }
    }
}

const fn call(name: &'static str, batch: bool) -> Call {
    Call { name, body: &[], batch }
}

/// The procedures that only this layout has.
#[derive(Debug)]
pub struct OwnCalls {
    /// Give the lock from one attempt to another.
    pub pass: Call,
    /// Have a holder's tokens begin higher, where locks of the store may lie on several nodes.
    pub raise: Option<Call>,
    /// Try several locks at once. Where a request costs no round trip there is no need for it.
    pub together: Option<Call>,
}

impl OwnCalls {
    /// All of them: a store may be asked for each by a digest.
    pub fn by_digest(&self) -> impl Iterator<Item = &Call> {
        std::iter::once(&self.pass).chain(&self.raise).chain(&self.together)
    }

    /// Those of a store that runs [`crate::lock_cell`].
    pub const fn of_cell() -> Self {
        OwnCalls { pass: call("pass", false), raise: None, together: None }
    }
}

/// What this layout promises in a store of this name, which keeps to so much.
pub const fn guarantees(
    store: &'static str,
    exclusive_until: ExclusiveUntil,
    token: TokenRises,
    notes: &'static [&'static str],
) -> Guarantees {
    Guarantees {
        store,
        layout: "native",
        exclusive_until,
        token,
        fair: true,
        reentrant: true,
        shared: true,
        push: true,
        survives_disconnect: true,
        incarnation: true,
        notes,
    }
}

/// The `native` layout of one store.
#[derive(Clone)]
pub struct NativeLayout {
    /// The store's procedures.
    pub calls: &'static Calls,
    /// Those for shared records.
    pub shared: &'static SharedCalls,
    /// Those for latches.
    pub latch: &'static LatchCalls,
    /// Those for barriers.
    pub barrier: &'static BarrierCalls,
    /// And those of this layout alone.
    pub own: &'static OwnCalls,
    /// What it promises there.
    pub guarantees: fn() -> Guarantees,
    /// The key that a lock's name is kept under there.
    pub key: fn(prefix: &str, name: &str) -> String,
    /// The name back from the key, without the prefix; `None` for what is no key of ours.
    pub name_of: fn(prefix: &str, key: &str) -> Option<String>,
    /// The connection's prefix, put before every name.
    pub prefix: String,
}

impl fmt::Debug for NativeLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NativeLayout({})", (self.guarantees)().store)
    }
}

impl Layout for NativeLayout {
    fn name(&self) -> &'static str {
        "native"
    }

    fn guarantees(&self) -> Guarantees {
        (self.guarantees)()
    }

    fn key(&self, name: &str) -> crate::Result<Arc<str>> {
        Ok((self.key)(&self.prefix, name).into())
    }

    fn serves_by_rank(&self) -> bool {
        true
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        let Guarantees { push, token, .. } = self.guarantees();
        let clocked = token == TokenRises::WithStoreClock;
        Box::new(NativeMachine { clocked, ..NativeMachine::new(self.calls, key, push).with(self.own) })
    }

    fn tries_together(&self) -> bool {
        self.own.together.is_some()
    }

    fn together(&self, policy: Policy, requests: &[&Request]) -> Option<Request> {
        let ([first, rest @ ..], Some(call)) = (requests, &self.own.together) else { return None };
        if !requests.iter().all(|request| std::ptr::eq(request.call, &raw const self.calls.acquire)) {
            return None;
        }
        let mut merged = Request::new(call, first.key.clone(), [Arg::Int((policy == Policy::All).into())]);
        merged.args.extend(rest.iter().map(|request| Arg::Key(request.key.clone())));
        // Each with as many arguments as whoever gives back an earlier holder has.
        let filled = |request: &Request| request.args.clone().into_iter().chain(repeat(Arg::Nothing)).take(7);
        merged.args.extend(requests.iter().flat_map(|request| filled(request)));
        Some(merged)
    }

    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        Some(Arc::new(SharedLayout { native: self.clone(), share }))
    }

    fn gate(&self, gate: Gate) -> Option<Arc<dyn Layout>> {
        Some(Arc::new(GateLayout { native: self.clone(), gate }))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.look(name, key, [LOCK])
    }

    fn identify<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        Inquiry::of(Request::new(&self.calls.inspect, key, []), move |reply| inspection::read(name, reply))
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let request = Request::new(&self.calls.break_hold, key, [token_arg(token)]);
        Inquiry::of(request, |reply| done("break", reply, refusal))
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let NativeLayout { calls, name_of, prefix, .. } = self.clone();
        let all: Arc<str> = (self.key)(&prefix, "*").into();
        let page = move |cursor: &str| Request::new(&calls.list, all.clone(), [cursor.into()]);
        Inquiry::pages(page, move |reply| names(reply, |key| name_of(&prefix, key)))
    }
}

impl NativeLayout {
    /// Looks at the record `name` for whoever means one of these `primitives`.
    pub(crate) fn look<'a, const N: usize>(
        &self,
        name: &'a str,
        key: Arc<str>,
        primitives: [&'static str; N],
    ) -> Inquiry<'a, Inspection> {
        let request = Request::new(&self.calls.inspect, key, []);
        Inquiry::of(request, move |reply| inspection::read_only(&primitives, name, reply))
    }
}

/// Reads what follows the kind in the answer to a look at a lock; see [`inspection`].
pub(crate) fn read_inspection(list: &[Reply], free: Inspection) -> Option<Inspection> {
    let [Reply::Text(owner), held, remaining, first, last, Reply::Text(card), waiters, Reply::List(queue)] = list
    else {
        return None;
    };
    let queue = queue.iter().map(read_waiting).collect::<Option<_>>()?;
    let free = Inspection { waiters: u64::try_from(int(waiters)?).ok()?, queue, ..free };
    let remaining = duration(int(remaining)?);
    if owner.is_empty() || remaining.is_zero() {
        return Some(free);
    }
    let holder = Holder {
        owner: shown(owner),
        card: Card::decode(card),
        held_for: Some(duration(int(held)?)),
        remaining,
        first_token: u64::try_from(int(first)?).ok()?,
        last_token: u64::try_from(int(last)?).ok()?,
    };
    Some(Inspection { holder: Some(holder), ..free })
}

fn read_waiting(one: &Reply) -> Option<Waiting> {
    let Reply::List(parts) = one else { return None };
    let [waited, rank, Reply::Text(card)] = &parts[..] else { return None };
    let (waited, rank) = (Some(duration(int(waited)?)), u8::try_from(int(rank)?).ok()?);
    Some(Waiting { card: Card::decode(card), waited, rank, units: 1 })
}

/// The machine.
#[derive(Clone, Debug)]
pub struct NativeMachine {
    calls: &'static Calls,
    own: Option<&'static OwnCalls>,
    key: Arc<str>,
    push: Push,
    /// Tokens are the store's clock.
    clocked: bool,
}

impl NativeMachine {
    /// The machine for the lock kept under `key`, by the procedures `calls` of a store that can `push`.
    pub fn new(calls: &'static Calls, key: Arc<str>, push: bool) -> Self {
        let push = if push { Push::Inbox } else { Push::None };
        NativeMachine { calls, own: None, key, push, clocked: false }
    }

    /// The same, able to do what only this layout can.
    pub fn with(self, own: &'static OwnCalls) -> Self {
        NativeMachine { own: Some(own), ..self }
    }

    fn begin(&self, intent: &Intent) -> Request {
        let me = claimant_arg(intent.terms());
        match intent {
            Intent::Acquire { terms, wait, prev } => {
                let mut request = self.request(&self.calls.acquire, [me, micros(terms.ttl), Arg::NotAfter]);
                let place = if *wait { 1 + i64::from(terms.rank.get()) } else { 0 };
                request.args.extend([terms.card.clone().into(), Arg::Int(place)]);
                if let Some(prev) = prev {
                    request.args.extend([claimant_arg(&prev.terms), token_arg(prev.used)]);
                }
                request
            }
            Intent::Renew { ttl, .. } => self.request(&self.calls.renew, [me, micros(*ttl)]),
            Intent::Release { used, .. } => self.request(&self.calls.release, [me, token_arg(*used)]),
            Intent::Undo { prev, .. } => {
                let prev = prev.as_ref().map_or(Arg::Nothing, |prev| claimant_arg(&prev.terms));
                self.request(&self.calls.undo, [me, prev])
            }
        }
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }

    fn answer(&self, op: Op, reply: &Reply) -> Option<Step> {
        if let Reply::Error { code, message } = reply {
            return Some(Step::Done(Verdict::Failed(refusal(operation(op), code, message))));
        }
        Some(match op {
            Op::Acquire => return acquired(reply),
            Op::Renew => Step::Done(match int(reply)? {
                0 => Verdict::Gone(ReleaseOutcome::Expired),
                _ => Verdict::Renewed,
            }),
            Op::Release => Step::Done(Verdict::Released(match reply {
                Reply::Text(card) => ReleaseOutcome::StolenBy(card.clone()),
                other if int(other)? == 0 => ReleaseOutcome::Expired,
                _ => ReleaseOutcome::Released,
            })),
            Op::Undo => {
                int(reply)?;
                Step::Done(Verdict::Undone)
            }
        })
    }
}

impl Protocol for NativeMachine {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => Step::Ask(Requests::from_iter([self.begin(&intent)])),
            Input::Reply(op, replies) => answered(op, replies, |reply| self.answer(op, reply)),
            Input::Event(StoreEvent::Granted { last, at, .. }) if self.clocked && is_far(*last, *at) => {
                Step::Done(Verdict::Implausible)
            }
            Input::Event(StoreEvent::Granted { first, last, at, .. }) => {
                let granted =
                    |tokens| Verdict::Granted(Grant { tokens: Some(tokens), term: Term::Pushed(*at), prev: None });
                Step::Done(Tokens::new(*first, *last).map_or(Verdict::Implausible, granted))
            }
            Input::Event(_) => Step::Ignore,
        }
    }

    fn pass(&self, from: &Terms, to: &Terms) -> Option<Requests> {
        let (from, heir) = (Claimant::of(from), Claimant::of(to));
        // A secret that nobody knows yet is undone with its maker's attempt, so it cannot come too late.
        let not_after = if heir.is_secret() { Arg::Int(i64::MAX) } else { Arg::NotAfter };
        let args = [heir.text().into(), from.text().into(), micros(to.ttl), not_after, to.card.clone().into()];
        Some(Requests::from_iter([self.request(&self.own?.pass, args)]))
    }

    fn raise(&self, terms: &Terms, token: u64) -> Option<Request> {
        let call = self.own?.raise.as_ref()?;
        Some(self.request(call, [claimant_arg(terms), Arg::Text(format!("{token:016}").into())]))
    }

    fn traits(&self) -> Traits {
        Traits { block: BLOCK, yields: true, push: self.push, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.key.hash(&mut state);
    }
}

fn acquired(reply: &Reply) -> Option<Step> {
    let granted = |first: i64, prev| {
        let first = u64::try_from(first).ok()?;
        let tokens = Some(Tokens::new(first, first.checked_add(BLOCK - 1)?)?);
        Some(Step::Done(Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev })))
    };
    let list = match reply {
        Reply::Int(0) => return Some(Step::Done(Verdict::Gone(ReleaseOutcome::Expired))),
        Reply::Int(first) => return granted(*first, Some(ReleaseOutcome::Released)),
        Reply::List(list) => list.as_slice(),
        _ => return None,
    };
    let at = |i: usize| list.get(i).and_then(int);
    match at(0)? {
        0 => Some(Step::Done(Verdict::Held {
            remaining: duration(at(2)?),
            at: Some(StoreTime(at(1)?)),
            prev: Some(given(at(3)?)?),
        })),
        1 => Some(Step::Wait(Wait {
            at: Some(StoreTime(at(1)?)),
            remaining: duration(at(2)?),
            position: u32::try_from(at(3)?).ok()?,
            prev: Some(given(at(4)?)?),
        })),
        2 => Some(Step::Done(Verdict::Late { at: StoreTime(at(1)?) })),
        3 => granted(at(1)?, Some(given(at(2)?)?)),
        _ => None,
    }
}

fn given(code: i64) -> Option<ReleaseOutcome> {
    Some(match code {
        0 => ReleaseOutcome::Released,
        1 => ReleaseOutcome::Expired,
        2 => ReleaseOutcome::StolenBy(String::new()),
        3 => ReleaseOutcome::Unknown,
        _ => return None,
    })
}

fn claimant_arg(terms: &Terms) -> Arg {
    Arg::Text(Claimant::of(terms).text())
}

/// A request of this layout as the stores that run [`crate::lock_cell`] read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// See [`lock_cell::LockCell::acquire`].
    Acquire(lock_cell::Acquire),
    /// See [`lock_cell::LockCell::renew`].
    Renew(Claimant, Duration),
    /// See [`lock_cell::LockCell::release`].
    Release(Claimant, u64),
    /// See [`lock_cell::LockCell::undo`], for one attempt or two.
    Undo(Claimant, Option<Claimant>),
    /// See [`lock_cell::LockCell::pass`].
    Pass(lock_cell::Pass),
    /// Look at it.
    Inspect,
    /// See [`lock_cell::LockCell::break_hold`].
    Break(u64),
}

impl Cell for LockCell {
    type Procedure = Procedure;
    type InMemory = ByRank;

    const INSPECT: Procedure = Procedure::Inspect;

    fn read(request: &Request) -> Option<Procedure> {
        let args = Arguments(&request.args);
        Some(match request.call.name {
            "acquire" => {
                let asker = lock_cell::Waiter { owner: args.claimant(0)?, card: args.text(3)?.to_owned() };
                let prev = args.claimant(5).zip(args.token(6));
                let (ttl, not_after) = (duration(args.number(1)?), StoreTime(args.number(2)?));
                let place = args.number(4)?;
                let rank = Rank::new(u8::try_from((place - 1).max(0)).ok()?)?;
                Procedure::Acquire(lock_cell::Acquire { asker, ttl, not_after, wait: place != 0, rank, prev })
            }
            "renew" => Procedure::Renew(args.claimant(0)?, duration(args.number(1)?)),
            "release" => Procedure::Release(args.claimant(0)?, args.token(1)?),
            "undo" => Procedure::Undo(args.claimant(0)?, args.claimant(1)),
            "pass" => Procedure::Pass(lock_cell::Pass {
                to: lock_cell::Waiter { owner: args.claimant(0)?, card: args.text(4)?.to_owned() },
                from: args.claimant(1)?,
                ttl: duration(args.number(2)?),
                not_after: StoreTime(args.number(3)?),
            }),
            "inspect" => Procedure::Inspect,
            "break" => Procedure::Break(args.token(0)?),
            _ => return None,
        })
    }

    fn only_looks(procedure: &Procedure) -> bool {
        matches!(procedure, Procedure::Inspect)
    }

    fn word(&self) -> &'static str {
        LOCK
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn is_idle(&self, line: &ByRank, _: StoreTime) -> bool {
        self.hold.is_none() && line.is_empty()
    }
}

impl<L: LockStorage> Runs<L> for LockCell {
    type Error = L::Error;

    fn run(&mut self, procedure: Procedure, line: &mut L, env: &mut Surroundings<'_>) -> Result<Reply, L::Error> {
        let was_renewed = self.hold.as_ref().is_some_and(|hold| !hold.claimed);
        let reply = run_alone(self, procedure, line, env)?;
        let is_claimed = self.hold.as_ref().is_some_and(|hold| hold.claimed);
        if was_renewed
            && is_claimed
            && let Some(next) = line.first()?
        {
            env.tell_next(&next.owner);
        }
        Ok(reply)
    }
}

/// Runs it, and tells nobody that a claim runs.
fn run_alone<L: LockStorage>(
    cell: &mut LockCell,
    procedure: Procedure,
    line: &mut L,
    env: &mut Surroundings<'_>,
) -> Result<Reply, L::Error> {
    Ok(match procedure {
        Procedure::Acquire(ask) => {
            let now = env.now.0;
            acquired_reply(now, &cell.acquire(line, env, ask)?)
        }
        Procedure::Renew(owner, ttl) => Reply::Int(cell.renew(env, &owner, ttl).into()),
        Procedure::Release(owner, used) => match cell.release(line, env, &owner, used)? {
            lock_cell::Release::Released => Reply::Int(1),
            lock_cell::Release::Expired => Reply::Int(0),
            lock_cell::Release::Stolen(card) => Reply::Text(card),
        },
        Procedure::Undo(owner, prev) => {
            for attempt in std::iter::once(&owner).chain(&prev) {
                cell.undo(line, env, attempt)?;
            }
            Reply::Int(1)
        }
        Procedure::Pass(pass) => match cell.pass(env, &pass) {
            lock_cell::Passed::Granted { first } => Reply::Int(i64::try_from(first).unwrap_or(i64::MAX)),
            lock_cell::Passed::Gone => Reply::Int(0),
            lock_cell::Passed::Late => Reply::List(vec![Reply::Int(2), Reply::Int(env.now.0)]),
        },
        Procedure::Inspect => inspect_reply(cell, env.now, line.count()?, &line.list(TOLD)?),
        Procedure::Break(token) => Reply::Int(cell.break_hold(line, env, token)?.into()),
    })
}

fn inspect_reply(cell: &LockCell, now: StoreTime, waiters: u32, queue: &[Place]) -> Reply {
    let (owner, since, first, card) = match &cell.hold {
        Some(hold) => (hold.owner.to_string(), hold.since, hold.first, hold.card.clone()),
        None => (String::new(), now, cell.last, String::new()),
    };
    let number = |n: u64| Reply::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let waiting = |place: &Place| {
        let (waited, rank) = (now.micros_since(place.since), place.rank.get());
        Reply::List(vec![Reply::Int(waited), Reply::Int(rank.into()), Reply::Text(place.waiter.card.clone())])
    };
    Reply::List(vec![
        Reply::Text(LOCK.into()),
        Reply::Text(owner),
        Reply::Int(now.micros_since(since)),
        Reply::Int(i64::try_from(cell.remaining(now).as_micros()).unwrap_or(i64::MAX)),
        number(first),
        number(cell.last),
        Reply::Text(card),
        Reply::Int(waiters.into()),
        Reply::List(queue.iter().map(waiting).collect()),
    ])
}

fn acquired_reply(now: i64, answer: &Acquired) -> Reply {
    let code = |prev: &Given| match prev {
        Given::Back => 0,
        Given::Expired => 1,
        Given::Stolen => 2,
        Given::Unknown => 3,
    };
    let list = |values: &[i64]| Reply::List(values.iter().map(|v| Reply::Int(*v)).collect());
    let us = |d: &Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    let token = |first: &u64| i64::try_from(*first).unwrap_or(i64::MAX);
    match answer {
        Acquired::Granted { first, prev: Given::Back } => Reply::Int(token(first)),
        Acquired::Granted { first, prev } => list(&[3, token(first), code(prev)]),
        Acquired::Held { remaining, prev } => list(&[0, now, us(remaining), code(prev)]),
        Acquired::Queued { remaining, position, prev } => {
            list(&[1, now, us(remaining), (*position).into(), code(prev)])
        }
        Acquired::Late => list(&[2, now]),
    }
}
