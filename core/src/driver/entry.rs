//! One lock of one client: its queue, its sessions, and the tasks, holds and releases that wait for them.
//!
//! This is the glue between the pure rooms: queue actions become session events and the other way round, until neither has
//! more to say. What is left goes out as [`Effects`]. Everything here happens under the entry's mutex, without I/O.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use smallvec::SmallVec;

use super::engine::Engine;
use super::hold::Hold;
use super::notice::{Notice, Way, Why};
use super::owners::{Here, Waiting};
use super::slots::{Slot, Slots};
use super::wait::{Settled, Waiter};
use crate::error::{Error, Kind, Result};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::lent::Lent;
use crate::options::{MIN_TTL, Retry};
use crate::platform::clock;
use crate::platform::fence::{Panicked, caught};
use crate::platform::mutex::locked;
use crate::protocol::{AttemptId, Layout, Op, Push, Requests, StoreEvent, Terms, Traits};
use crate::queue::{self, Ask, ContenderId, OwnerId, Queue, Refusal, TaskId};
use crate::session::{self, Answer, Inbox, RequestId, Service, Session, claim};
use crate::share::{Primitive, Share};
use crate::stores::{Answered, Outcome};
use crate::time::{StoreTime, Time};
use crate::token::Token;

/// How much longer than its time limit an acquisition may take, so that its place among the waiters is gone by then. Whoever
/// gave up shall not find the lock handed to the place it left; a store that does not answer keeps nobody longer.
pub(crate) const PARTING: Duration = Duration::from_millis(100);

/// A lock of a client. Lives as long as somebody names it, or something of it is left at the store.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) layout: Arc<dyn Layout>,
    state: Mutex<State>,
}

struct State {
    queue: Queue,
    slots: Slots,
    /// In the order of their ids, which is that in which they came.
    tasks: Lent<Task>,
    /// How many of them were not yet said to wait.
    unsaid: u32,
    /// How many of them only try.
    hurrying: u32,
    /// Those of them that gave up, and when at the latest they are told so: once their place is gone. Some may have gone since.
    parting: Lent<(Time, TaskId)>,
    holds: SmallVec<[Arc<Hold>; 1]>,
    releases: Lent<Release>,
    /// Extensions and changes, by slot.
    wishes: Lent<Wish>,
    failure: Option<(ContenderId, Error)>,
    /// The holder card of whoever asked last.
    card: Arc<str>,
    /// When the wheel will look at this entry.
    due: Option<Time>,
    /// Keeps the entry alive while the store may know of it.
    alive: Option<Arc<Entry>>,
    closed: bool,
    /// How its waiters are told.
    push: Push,
    /// Whoever holds all of it keeps the others out: it is no semaphore, and no gate.
    is_of_holders: bool,
}

/// The memory in which a step of an entry gathers what it does. Each thread lends it to the entry it works on, so that a
/// lock that is merely held keeps none: a client may hold very many.
#[derive(Default)]
pub(crate) struct Room {
    session: session::Room,
    queue: queue::Room,
    slots: Lent<u32>,
    tasks: Lent<Task>,
    releases: Lent<Release>,
}

thread_local! {
    static ROOM: Cell<Option<Box<Room>>> = const { Cell::new(None) };
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Room")
    }
}

impl Room {
    /// A thread that ends has none any more.
    fn borrow() -> Box<Self> {
        ROOM.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    fn give_back(mut self: Box<Self>) {
        // Something many were waiting for is not kept for ever.
        self.slots.shrink_to(64);
        self.tasks.shrink_to(64);
        self.releases.shrink_to(64);
        let _ = ROOM.try_with(|room| room.set(Some(self)));
    }
}

/// A task that wants the lock.
struct Task {
    id: TaskId,
    waiter: Arc<Waiter>,
    since: Time,
    /// Somebody of this process had the lock, or asked for it, before.
    behind: bool,
    /// It was said to wait.
    said: bool,
    /// Whose it is, where the face said so.
    by: Option<OwnerId>,
    /// The same, where a wait for that one itself would never end.
    waits_as: Option<OwnerId>,
    /// Somebody else may release what that one holds.
    lenient: bool,
    /// It wants to be served in order or not at all, where it wants an order.
    insists: bool,
    /// It only tries: that there is nobody at the store's address is an answer.
    hurries: bool,
    /// Its time limit passed; it is told this.
    parts: Option<Refusal>,
}

/// How the contender that was withdrawn last stood.
#[derive(Debug, Default)]
struct Left {
    /// What the store owed it.
    silence: Option<session::Silence>,
    /// How many were ahead of it at most.
    ahead: Option<u32>,
}

/// What a task wants.
pub(crate) struct Demand {
    pub(crate) ask: Ask,
    /// Who wants it, where the face says so.
    pub(crate) by: Option<OwnerId>,
    /// Somebody else may release what that one holds.
    pub(crate) lenient: bool,
    /// It wants to take over what this one holds.
    pub(crate) secret: Option<AttemptId>,
    /// It wants to be served in order or not at all, where it wants an order.
    pub(crate) insists: bool,
    /// That there is nobody at the store's address is an answer.
    pub(crate) hurries: bool,
}

/// A release whose outcome is not known yet.
struct Release {
    token: u64,
    /// The slot whose session will tell; `None` while it is the queue's to say.
    asked: Option<u64>,
    /// The secret that is to have the lock.
    heir: Option<AttemptId>,
    waiter: Arc<Waiter>,
}

/// What somebody wants of a hold, and has no answer to yet.
struct Wish {
    slot: u64,
    /// To hold more or less, not for longer.
    changes: bool,
    waiter: Arc<Waiter>,
}

impl Slot {
    /// Its session is about to contend on `terms`: listens from the start where that costs nothing.
    fn overhear(&mut self, engine: &Engine, terms: &Terms) -> Inbox {
        self.listens = self.session.channel_of(terms).is_some_and(|channel| engine.store.overhear(&channel));
        if self.listens { Inbox::Live } else { Inbox::Closed }
    }

    /// Its session has to wait: listens from now on.
    fn hear(&mut self, engine: &Engine, entry: &Entry, now: Time) {
        if self.listens {
            return;
        }
        let Some(channel) = self.session.channel() else { return };
        self.listens = true;
        let state = engine.store.hear(&channel, &entry.key);
        if state != Inbox::Closed {
            self.session.handle(now, session::Event::Inbox(state));
        }
    }

    /// Its session is about to wait in order. Whoever came before it and has no place yet has one before it: then it is told only in its
    /// turn that the store pushes to this client.
    fn line_up(&mut self, engine: &Engine, entry: &Arc<Entry>) -> Inbox {
        let (inbox, behind) = engine.line_up.join(self.id, entry, || engine.inbox());
        self.behind = behind;
        inbox
    }

    /// Whether it does not stand behind others any more: it has its place, or wants none.
    fn is_through(&mut self) -> bool {
        let wants = self.contender.is_some() && !self.idle;
        let has = self.session.ahead().is_some() || self.session.valid_until().is_some();
        self.behind && (has || !wants) && std::mem::take(&mut self.behind)
    }

    fn forget(&mut self, engine: &Engine) {
        if std::mem::take(&mut self.listens)
            && let Some(channel) = self.session.channel()
        {
            // The channel of one attempt is of no use to the next.
            engine.store.forget(&channel, !self.session.is_fair());
        }
    }
}

/// What became of a contender that was to be [let in](Entry::let_in).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It asks for its place.
    Asks,
    /// It will, once it is answered.
    AsksAgain,
    /// It has to be answered first.
    Later,
    /// It needs none.
    Over,
}

/// A write to perform.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) entry: Arc<Entry>,
    pub(crate) slot: u64,
    pub(crate) id: RequestId,
    pub(crate) requests: Requests,
}

/// What is to be done once the entry's mutex is free.
#[derive(Debug, Default)]
#[must_use = "effects must be performed"]
pub(crate) struct Effects {
    pub(crate) sends: SmallVec<[Outbound; 1]>,
    pub(crate) settled: SmallVec<[(Arc<Waiter>, Settled); 1]>,
    pub(crate) lost: SmallVec<[(Arc<Hold>, LossReason); 0]>,
    /// Holds that were given back.
    pub(crate) ended: SmallVec<[Arc<Hold>; 0]>,
    pub(crate) learnt: SmallVec<[(Time, StoreTime); 0]>,
    pub(crate) open_inbox: bool,
    /// Somebody listens on a channel of the store.
    pub(crate) hear_hints: bool,
    pub(crate) notices: SmallVec<[Notice; 2]>,
    /// Who waits without a limit from now on, or no more.
    pub(crate) waits: SmallVec<[Waiting; 0]>,
    withdrawn: Left,
    /// Somebody has it from now on, and hears of it by the inbox when it is broken.
    pub(super) heeds: bool,
    /// Slots that need not be [let in](super::line_up) any more.
    pub(super) let_through: SmallVec<[u64; 0]>,
    /// What it is of has so many permits, and not as many as this client says.
    pub(super) permits: Option<u32>,
    /// Lent while the entry's mutex is held.
    room: Option<Box<Room>>,
    /// The store pushed something that led to all this.
    pushed: bool,
    /// The wheel must look at the entry by then.
    pub(crate) due: Option<Time>,
    /// When all this was decided.
    pub(crate) at: Time,
}

impl Entry {
    pub(crate) fn new(name: Arc<str>, key: Arc<str>, layout: Arc<dyn Layout>) -> Self {
        let state = Mutex::new(State::new(&*layout, &key));
        Entry { name, key, layout, state }
    }

    /// A task wants the lock, and shows `card` while it has it; `waiter` gets the result. Which task that is, is found here: those of one
    /// lock are numbered in the order in which they come.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        engine: &Engine,
        demand: Demand,
        card: &Arc<str>,
        waiter: &Arc<Waiter>,
    ) -> (TaskId, Effects) {
        let Demand { mut ask, by, lenient, secret, insists, hurries } = demand;
        let effects = self.with(engine, |state, now, effects| {
            ask.task = engine.next_task();
            if !Arc::ptr_eq(&state.card, card) {
                state.card = card.clone();
            }
            // The wheel may be late: a hold that is over refuses nobody who only tries.
            if state.due.is_some_and(|due| due <= now) {
                state.tick(now);
                state.pump(self, engine, now, effects);
            }
            effects.notices.push(Notice::Asked);
            let behind = !ask.tries && !state.queue.is_idle();
            let waiter = waiter.clone();
            let waits_as = by.filter(|_| !ask.tries && ask.deadline.is_none() && state.is_of_holders);
            let (id, since, said, parts) = (ask.task, now, false, None);
            state.tasks.push_back(Task {
                id,
                waiter,
                since,
                behind,
                said,
                waits_as,
                lenient,
                by,
                insists,
                hurries,
                parts,
            });
            state.unsaid += 1;
            state.hurrying += u32::from(hurries);
            if state.closed {
                return state.refuse(now, ask.task, Refusal::Failed(closed()), effects);
            }
            let event = match secret {
                Some(secret) => queue::Event::Resume { ask, secret },
                None => queue::Event::Acquire(ask),
            };
            state.queue.handle(now, event);
        });
        (ask.task, effects)
    }

    /// The task is gone. If it was granted the lock meanwhile, that is given back.
    pub(crate) fn cancel(self: &Arc<Self>, engine: &Engine, task: TaskId, waiter: &Arc<Waiter>) -> Effects {
        self.with(engine, |state, now, effects| {
            if let Some(task) = state.take_task(task, effects) {
                let why = if task.parts.is_some() { Why::TimedOut } else { Why::Cancelled };
                effects.notices.push(Notice::Refused { why, waited: now.since(task.since) });
            }
            match waiter.refuse() {
                Some(Settled::Granted { hold, .. }) => {
                    let token = hold.token.n;
                    effects.ended.push(hold);
                    state.release(now, token, Arc::default());
                }
                _ => state.queue.handle(now, queue::Event::Cancel(task)),
            }
        })
    }

    /// The hold under `token` is given back; `waiter` gets the outcome.
    pub(crate) fn release(self: &Arc<Self>, engine: &Engine, token: u64, waiter: &Arc<Waiter>) -> Effects {
        self.with(engine, |state, now, _| state.release(now, token, waiter.clone()))
    }

    /// The hold under `token` is left to `secret` for `ttl`; `waiter` gets the outcome, or nothing changes and it is refused.
    pub(crate) fn export(
        self: &Arc<Self>,
        engine: &Engine,
        token: u64,
        secret: AttemptId,
        ttl: Duration,
        waiter: &Arc<Waiter>,
    ) -> Effects {
        self.with(engine, |state, now, effects| {
            // The deadline is the truth, however late the wheel is.
            state.tick(now);
            state.pump(self, engine, now, effects);
            let slot = state.queue.holder(token).and_then(|contender| state.slot_of(contender, now));
            if slot.is_some_and(|slot| !slot.session.can_pass()) {
                let message = "this layout cannot pass a held lock on; take one that can, such as native";
                let error = Error::unsupported("export", message);
                return effects.settled.push((waiter.clone(), Settled::Refused(Refusal::Failed(error))));
            }
            state.releases.push_back(Release { token, asked: None, heir: Some(secret), waiter: waiter.clone() });
            state.queue.handle(now, queue::Event::Export { token, secret, ttl });
        })
    }

    /// The hold under `token` shall last `ttl` from now; `waiter` hears whether it does.
    pub(crate) fn extend(
        self: &Arc<Self>,
        engine: &Engine,
        token: u64,
        ttl: Duration,
        waiter: &Arc<Waiter>,
    ) -> Effects {
        self.with(engine, |state, now, effects| {
            if !state.wish(now, token, session::Event::Extend(ttl), false, waiter) {
                effects.settled.push((waiter.clone(), Settled::Extended(false)));
            }
        })
    }

    /// The hold under `token` shall be of so many units; `waiter` hears whether it is.
    pub(crate) fn change(self: &Arc<Self>, engine: &Engine, token: u64, units: u32, waiter: &Arc<Waiter>) -> Effects {
        self.with(engine, |state, now, effects| {
            // One at a time: an answer says nothing of what was wanted.
            let busy = state.wishes.iter().any(|wish| wish.changes);
            if busy {
                let message = "another change of this guard is under way; wait for it, then change it again";
                let refused = Refusal::Failed(Error::new(Kind::Unavailable, "change", message));
                effects.settled.push((waiter.clone(), Settled::Refused(refused)));
            } else if !state.wish(now, token, session::Event::Change(units), true, waiter) {
                effects.settled.push((waiter.clone(), Settled::Changed(false)));
            }
        })
    }

    /// A guard of `token` was forgotten: once no other guard of this hold is left, the lease may run out, and nothing prolongs it.
    pub(crate) fn abandon(self: &Arc<Self>, engine: &Engine, token: u64) -> Effects {
        self.with(engine, |state, now, _| state.queue.handle(now, queue::Event::Abandon { token }))
    }

    /// Nobody was told `secret`, or wants it any more: what it holds is given back.
    pub(crate) fn retract(self: &Arc<Self>, engine: &Engine, secret: AttemptId) -> Effects {
        self.with(engine, |state, now, effects| {
            let service = Service { ttl: MIN_TTL, renew: false, max_hold: None, retry: Retry::DEFAULT };
            // Else it is free once the secret's time is over.
            let Ok(terms) = self.terms(engine, &state.card, service) else { return };
            let secret = Terms::of_secret(self.name.clone(), secret, MIN_TTL, "".into());
            let slot = state.idle_slot(self, engine, now, effects);
            slot.contender = None;
            slot.idle = false;
            slot.session.handle(now, session::Event::Resume { terms, secret, service });
        })
    }

    /// A write of this entry ended.
    pub(crate) fn answered(self: &Arc<Self>, engine: &Engine, slot: u64, id: RequestId, answered: Answered) -> Effects {
        self.with(engine, |state, now, effects| {
            let Some(at) = state.slots.position(slot, now) else { return };
            let slot = &mut state.slots[at];
            let renews = id.op == Op::Renew && slot.session.awaits(id);
            let Answered { sent, outcome } = answered;
            let reply = |answer| session::Event::Reply { id, sent, answer };
            let mut unanswered = None;
            if let (Op::Acquire, Outcome::Replies(replies)) = (id.op, &outcome) {
                effects.permits = self.layout.other_permits(replies);
            }
            match outcome {
                Outcome::Replies(replies) => slot.session.handle(now, reply(Answer::Replies(&replies))),
                Outcome::NotSent(error) => {
                    unanswered = (renews || error.is_nobody_there()).then(|| error.clone());
                    slot.session.handle(now, reply(Answer::NotSent(error)));
                }
                Outcome::Unknown { error, void_after } => {
                    unanswered = renews.then(|| error.clone());
                    slot.session.handle(now, reply(Answer::Unknown { error, void_after }));
                }
            }
            if renews {
                let token = state.queue.held_token().unwrap_or_else(|| slot.session.first_token());
                effects.notices.extend(renewal(&slot.session, Token::new(token), unanswered));
            } else if let Some(error) = unanswered.filter(Error::is_nobody_there) {
                state.refuse_who_hurries(now, &error, effects);
            }
        })
    }

    /// The store pushed something for this lock.
    pub(crate) fn pushed(self: &Arc<Self>, engine: &Engine, event: &StoreEvent) -> Effects {
        self.with(engine, |state, now, effects| {
            effects.pushed = true;
            match event {
                StoreEvent::Granted { attempt, .. } | StoreEvent::Broken { attempt } => {
                    for at in state.slots.positions_for(*attempt, now) {
                        if !state.slots[at].idle {
                            state.slots[at].session.handle(now, session::Event::Push(event));
                        }
                    }
                }
                StoreEvent::Next { tail } => {
                    let next = |slot: &Slot| !slot.idle && slot.session.attempt().tail() == *tail;
                    if let Some(at) = state.slots.iter().position(next) {
                        state.slots[at].session.handle(now, session::Event::Push(event));
                    }
                }
                StoreEvent::Dropped | StoreEvent::Changed { .. } | StoreEvent::Gone { .. } => {
                    state.every_session(|session| session.handle(now, session::Event::Push(event)));
                }
            }
        })
    }

    /// The client's inbox changed.
    pub(crate) fn inbox(self: &Arc<Self>, engine: &Engine, inbox: Inbox) -> Effects {
        self.with(engine, |state, now, effects| {
            if state.push == Push::Hint {
                return;
            }
            if inbox == Inbox::Unavailable {
                state.refuse_the_fair(now, effects);
            }
            state.slots.each(|slot| {
                slot.behind &= inbox != Inbox::Unavailable;
                // Whoever stands behind others is told in its turn.
                if !(slot.behind && inbox == Inbox::Live) {
                    slot.session.handle(now, session::Event::Inbox(inbox));
                }
            });
        })
    }

    /// The contender of `slot`, if it still stands behind others, may ask for a place: at once if it waits, else if it is the `first` of
    /// all, once it is answered.
    pub(super) fn let_in(self: &Arc<Self>, engine: &Engine, slot: u64, first: bool) -> (Turn, Effects) {
        let mut turn = Turn::Over;
        let effects = self.with(engine, |state, now, _| {
            let Some(at) = state.slots.position(slot, now).filter(|at| state.slots[*at].behind) else { return };
            turn = match state.slots[at].session.is_waiting() {
                true => Turn::Asks,
                false if first => Turn::AsksAgain,
                false => return turn = Turn::Later,
            };
            state.slots[at].session.handle(now, session::Event::Inbox(Inbox::Live));
        });
        (turn, effects)
    }

    /// An operator broke the hold under `token`, as the store says: whoever has it here is told so, the others ask the store.
    pub(crate) fn broken(self: &Arc<Self>, engine: &Engine, token: u64) -> Effects {
        self.with(engine, |state, now, _| {
            let holder = state.queue.held_token().and_then(|held| state.queue.holder(held));
            let slot = holder.and_then(|holder| state.slot_of(holder, now));
            match slot.filter(|slot| slot.session.has_token(token)) {
                Some(slot) => {
                    let attempt = slot.session.attempt();
                    slot.session.handle(now, session::Event::Push(&StoreEvent::Broken { attempt }));
                }
                None => state.every_session(|session| session.handle(now, session::Event::Verify)),
            }
        })
    }

    /// How many are ahead at most of each contender that waits for it here, by its slot.
    pub(crate) fn places(&self) -> Vec<(u64, u32)> {
        let state = locked(&self.state);
        let waits = |slot: &Slot| Some((slot.id, slot.session.ahead()?)).filter(|_| self.layout.is_held());
        state.slots.iter().filter_map(waits).collect()
    }

    /// What is heard on a channel of this lock changed.
    pub(crate) fn channel(self: &Arc<Self>, engine: &Engine, channel: &str, state: Inbox) -> Effects {
        self.with(engine, |entry, now, _| {
            let listens = |slot: &Slot| slot.listens && slot.session.channel().as_deref() == Some(channel);
            for at in 0..entry.slots.len() {
                if listens(&entry.slots[at]) {
                    entry.slots[at].session.handle(now, session::Event::Inbox(state));
                }
            }
        })
    }

    /// The store may have forgotten what it promised.
    pub(crate) fn verify(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |state, now, _| {
            state.every_session(|session| session.handle(now, session::Event::Verify));
        })
    }

    /// The wheel looks at the entry.
    pub(crate) fn tick(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |state, now, _| {
            // An appointment that a sooner one made needless changes nothing, so that they do not multiply.
            state.due.take_if(|due| *due <= now);
            state.tick(now);
        })
    }

    /// A waiting thread's own deadline passed: the same as the wheel's look, but the wheel keeps its appointment.
    pub(crate) fn expire(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |state, now, _| state.tick(now))
    }

    /// The client closes: waiting tasks are refused, holders told, and everything is given back.
    pub(crate) fn close(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |state, now, effects| {
            state.closed = true;
            while let Some(task) = state.tasks.front().map(|task| task.id) {
                state.refuse(now, task, Refusal::Failed(closed()), effects);
            }
            for hold in state.holds.drain(..) {
                effects.lose(now, hold, LossReason::Closed);
            }
            let held = state.queue.held_token().and_then(|token| Some((token, state.queue.holder(token)?)));
            state.queue = Queue::new(1);
            for at in 0..state.slots.len() {
                let slot = &mut state.slots[at];
                let given_back = held.filter(|(_, holder)| slot.contender == Some(*holder));
                slot.contender = None;
                slot.session.handle(
                    now,
                    match given_back {
                        Some((used, _)) => session::Event::Release { used },
                        None => session::Event::Cancel,
                    },
                );
            }
        })
    }

    /// This process goes on from a copy of itself: whoever waits or holds is told, and the store hears nothing, since it could not tell
    /// this process from the other.
    pub(crate) fn forsake(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |state, now, effects| {
            state.closed = true;
            while let Some(task) = state.tasks.front().map(|task| task.id) {
                state.refuse(now, task, Refusal::Failed(restored()), effects);
            }
            for hold in state.holds.drain(..) {
                effects.lose(now, hold, LossReason::Closed);
            }
            while let Some(release) = state.releases.pop_front() {
                effects.settled.push((release.waiter, Settled::Released(ReleaseOutcome::Unknown)));
            }
            while let Some(wish) = state.wishes.pop_front() {
                let refused = if wish.changes { Settled::Changed(false) } else { Settled::Extended(false) };
                effects.settled.push((wish.waiter, refused));
            }
            state.queue = Queue::new(1);
            state.slots = Slots::new();
        })
    }

    /// Who of this client holds it.
    pub(crate) fn holder_here(&self) -> Option<Here> {
        let (mut state, now) = (locked(&self.state), clock::now());
        let token = state.queue.held_token()?;
        let slot = state.queue.holder(token).and_then(|contender| state.slots.position_of(contender, now));
        let is_endless = slot.is_some_and(|at| state.slots[at].session.is_endless());
        let hold = state.holds.iter().find(|hold| hold.token.n == token)?;
        Some(Here { by: hold.by(), held_for: now.since(hold.since), is_endless })
    }

    /// Whether a task waits for it yet.
    pub(crate) fn waits(&self, task: TaskId) -> bool {
        locked(&self.state).task_at(task).is_some()
    }

    /// Whether it is for a reader, whom other readers do not keep out.
    pub(crate) fn is_for_a_reader(&self) -> bool {
        self.layout.share() == Some(Share::READ)
    }

    /// The task would wait without end.
    pub(crate) fn refuse(self: &Arc<Self>, engine: &Engine, task: TaskId, error: Error) -> Effects {
        self.with(engine, |state, now, effects| {
            state.queue.handle(now, queue::Event::Cancel(task));
            state.refuse(now, task, Refusal::Failed(error), effects);
        })
    }

    /// Nobody is to wait for it any more.
    pub(crate) fn refuse_all(self: &Arc<Self>, engine: &Engine, why: &Error) -> Effects {
        self.with(engine, |state, now, effects| {
            while let Some(task) = state.tasks.front().map(|task| task.id) {
                state.queue.handle(now, queue::Event::Cancel(task));
                state.refuse(now, task, Refusal::Failed(why.clone()), effects);
            }
        })
    }

    /// Whether nothing of this lock is held, wanted or left at the store.
    pub(crate) fn is_idle(&self) -> bool {
        let state = locked(&self.state);
        state.queue.is_idle() && state.slots.iter().all(|slot| slot.idle)
    }

    fn with(self: &Arc<Self>, engine: &Engine, change: impl FnOnce(&mut State, Time, &mut Effects)) -> Effects {
        let mut effects = Effects::default();
        let mut state = locked(&self.state);
        let now = clock::now();
        effects.at = now;
        let mut room = Room::borrow();
        state.move_in(&mut room);
        effects.room = Some(room);
        let done = caught(|| {
            change(&mut state, now, &mut effects);
            state.pump(self, engine, now, &mut effects);
        });
        if let Err(panicked) = done {
            state.give_up(now, panicked, &mut effects);
            let like_new = State::new(&*self.layout, &self.key);
            *state = State { closed: state.closed, ..like_new };
        }
        if let Some(mut room) = effects.room.take() {
            state.move_out(&mut room);
            room.give_back();
        }
        engine.counters.count(&effects.notices);
        effects.notices.retain(|notice| notice.is_wanted());
        effects
    }

    /// A step that panics.
    #[cfg(test)]
    pub(crate) fn breaks(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |_, _, _| panic!("a defect"))
    }

    fn terms(&self, engine: &Engine, card: &Arc<str>, service: Service) -> Result<Terms> {
        Ok(Terms {
            name: self.name.clone(),
            attempt: engine.mint()?,
            inbox: engine.inbox_id()?,
            ttl: service.ttl,
            claim: claim(service.ttl),
            card: card.clone(),
            fair: false,
        })
    }
}

impl Effects {
    /// Whether somebody gets its result.
    pub(crate) fn tells(&self) -> bool {
        !self.settled.is_empty()
    }

    fn lose(&mut self, now: Time, hold: Arc<Hold>, reason: LossReason) {
        let (token, held) = (hold.shown(), now.since(hold.since));
        let reason = hold.reason(reason);
        self.notices.push(Notice::Lost { token, reason: reason.clone(), held });
        self.lost.push((hold, reason));
    }
}

/// What became of a renewal that was just answered, or was not; nothing to say of it when the hold ended with it.
fn renewal(session: &Session, token: Token, error: Option<Error>) -> Option<Notice> {
    let (attempt, ttl) = (session.attempt(), session.ttl());
    let error = error.or_else(|| session.not_renewed().cloned());
    match session.valid_until() {
        _ if error.is_some() || session.is_failing() => Some(Notice::NotRenewed { token, attempt, error }),
        Some(_) => Some(Notice::Renewed { token, attempt, ttl }),
        None => None,
    }
}

impl State {
    fn new(layout: &dyn Layout, key: &Arc<str>) -> Self {
        let Traits { block, push, .. } = layout.protocol(key.clone()).traits();
        State {
            queue: Queue::new(block),
            slots: Slots::new(),
            tasks: Lent::new(),
            unsaid: 0,
            hurrying: 0,
            parting: Lent::new(),
            holds: SmallVec::new(),
            releases: Lent::new(),
            wishes: Lent::new(),
            failure: None,
            card: "".into(),
            due: None,
            alive: None,
            closed: false,
            push,
            is_of_holders: match layout.share() {
                Some(share) => share.primitive == Primitive::RwLock,
                None => !layout.has_many_holders(),
            },
        }
    }

    fn move_in(&mut self, room: &mut Room) {
        self.queue.lend(&mut room.queue);
        self.tasks.exchange(&mut room.tasks);
        self.releases.exchange(&mut room.releases);
        self.slots.exchange(&mut room.slots);
        self.slots.begin();
        if !self.slots.is_empty() {
            self.slots.aside(0).session.lend(&mut room.session);
        }
    }

    fn move_out(&mut self, room: &mut Room) {
        self.queue.reclaim(&mut room.queue);
        room.tasks.take_back(&mut self.tasks);
        room.releases.take_back(&mut self.releases);
        for at in self.slots.worked() {
            self.slots.aside(at).session.reclaim(&mut room.session);
        }
        self.slots.take_back(&mut room.slots);
    }

    /// The slot whose session stands for `contender`.
    fn slot_of(&mut self, contender: ContenderId, now: Time) -> Option<&mut Slot> {
        let at = self.slots.position_of(contender, now)?;
        Some(&mut self.slots[at])
    }

    fn every_session(&mut self, mut each: impl FnMut(&mut Session)) {
        self.slots.each(|slot| each(&mut slot.session));
    }

    /// Lets queue and sessions talk until both are silent.
    fn pump(&mut self, entry: &Arc<Entry>, engine: &Engine, now: Time, effects: &mut Effects) {
        loop {
            if let Some(action) = self.queue.poll_action() {
                self.queue_wants(entry, engine, now, action, effects);
            } else if let Some((index, action)) = self.slots.next_action() {
                self.session_wants(entry, engine, index, now, action, effects);
            } else {
                break;
            }
        }
        for at in self.slots.worked() {
            let slot = self.slots.aside(at);
            if self.push == Push::Hint && !slot.session.listens() {
                slot.forget(engine);
            }
            if slot.is_through() {
                effects.let_through.push(slot.id);
            }
        }
        self.part(now, effects);
        self.say_who_waits(effects);
        self.refresh_deadlines(now);
        self.appoint(now, effects);
        let needed = self.slots.iter().any(|slot| !slot.idle);
        if needed != self.alive.is_some() {
            self.alive = needed.then(|| entry.clone());
        }
    }

    fn queue_wants(
        &mut self,
        entry: &Arc<Entry>,
        engine: &Engine,
        now: Time,
        action: queue::Action,
        effects: &mut Effects,
    ) {
        match action {
            queue::Action::Contend { contender, wait, fair, service } => {
                let terms = match entry.terms(engine, &self.card, service) {
                    Ok(terms) => Terms { fair, ..terms },
                    Err(error) => return self.fail(now, contender, entry, error),
                };
                if wait && entry.layout.has_many_holders() {
                    engine.await_grant(terms.attempt, entry);
                }
                let push = self.push;
                let ordered = wait && push == Push::Inbox && (fair || entry.layout.has_many_holders());
                let slot = self.idle_slot(entry, engine, now, effects);
                slot.contender = Some(contender);
                slot.idle = false;
                let inbox = match push {
                    Push::Hint => slot.overhear(engine, &terms),
                    _ if ordered => slot.line_up(engine, entry),
                    _ => engine.inbox(),
                };
                slot.session.handle(now, session::Event::Acquire { terms, wait, service, inbox });
            }
            queue::Action::Resume { contender, secret, service } => {
                let terms = match entry.terms(engine, &self.card, service) {
                    Ok(terms) => terms,
                    Err(error) => return self.fail(now, contender, entry, error),
                };
                let secret = Terms::of_secret(entry.name.clone(), secret, service.ttl, "".into());
                let slot = self.idle_slot(entry, engine, now, effects);
                slot.contender = Some(contender);
                slot.idle = false;
                slot.session.handle(now, session::Event::Resume { terms, secret, service });
            }
            queue::Action::Serve { contender, service } => {
                if let Some(hold) = self.queue.held_token().and_then(|token| self.hold_of(token)) {
                    hold.abandon(false);
                }
                self.tell(contender, now, session::Event::Serve(service));
            }
            queue::Action::RunOut { contender, token } => {
                if let Some(hold) = self.hold_of(token) {
                    hold.abandon(true);
                }
                if let Some(slot) = self.slot_of(contender, now) {
                    let left = slot.session.valid_until().map_or(Duration::ZERO, |until| until.since(now));
                    slot.session.handle(now, session::Event::Serve(Service::that_runs_out(left)));
                }
            }
            queue::Action::Yield { contender, used, service } => {
                self.release_goes_to(now, contender, used, effects);
                match engine.mint() {
                    Ok(attempt) => {
                        effects.notices.push(Notice::Yielded { token: Token::new(used) });
                        self.tell(contender, now, session::Event::Yield { attempt, used, service });
                    }
                    Err(error) => {
                        self.tell(contender, now, session::Event::Release { used });
                        self.detach(contender, now);
                        self.fail(now, contender, entry, error);
                    }
                }
            }
            queue::Action::GiveBack { contender, used } => {
                self.release_goes_to(now, contender, used, effects);
                self.tell(contender, now, session::Event::Release { used });
                self.detach(contender, now);
            }
            queue::Action::Export { contender, used, secret, ttl } => {
                self.release_goes_to(now, contender, used, effects);
                let secret = Terms::of_secret(entry.name.clone(), secret, ttl, self.card.clone());
                self.tell(contender, now, session::Event::Export { secret, used });
                self.detach(contender, now);
            }
            queue::Action::Withdraw(contender) => {
                let session = self.slot_of(contender, now).map(|slot| &slot.session);
                effects.withdrawn = session
                    .map_or_else(Left::default, |session| Left { silence: session.silence(), ahead: session.ahead() });
                self.tell(contender, now, session::Event::Cancel);
                self.detach(contender, now);
            }
            queue::Action::Grant { task, token, depth, contender } => {
                self.grant(now, task, token, depth, contender, effects);
            }
            queue::Action::Refuse { task, why: Refusal::TimedOut(_) } => {
                let why = self.why_out_of_time(now, task, std::mem::take(&mut effects.withdrawn));
                if !self.slots.is_undoing(now) {
                    return self.refuse(now, task, why, effects);
                }
                // What may have been granted is worth waiting for as long as for any answer.
                let patience = if self.push == Push::Place { engine.store_timeout() } else { PARTING };
                self.let_part(task, now.after(patience), why);
            }
            queue::Action::Refuse { task, why: Refusal::Taken } => {
                let why = self.why_taken(now);
                self.refuse(now, task, why, effects);
            }
            queue::Action::Refuse { task, why } => self.refuse(now, task, why, effects),
            queue::Action::Released { token, outcome } => {
                if !matches!(outcome, ReleaseOutcome::Kept(_)) {
                    self.end_hold(now, token, effects);
                }
                self.settle_release(|release| release.token == token && release.asked.is_none(), outcome, effects);
            }
            queue::Action::Lost { token } => {
                if let Some(hold) = self.take_hold(token) {
                    effects.lose(now, hold, LossReason::Expired);
                }
            }
        }
    }

    fn session_wants(
        &mut self,
        entry: &Arc<Entry>,
        engine: &Engine,
        index: usize,
        now: Time,
        action: session::Action,
        effects: &mut Effects,
    ) {
        let (slot, contender) = (self.slots[index].id, self.slots[index].contender);
        match action {
            session::Action::Send { id, requests } => {
                if id.op == Op::Undo {
                    effects.notices.push(Notice::Undone { attempt: id.attempt });
                }
                effects.sends.push(Outbound { entry: entry.clone(), slot, id, requests });
            }
            session::Action::OpenInbox if self.push == Push::Hint => {
                effects.hear_hints = true;
                self.slots[index].hear(engine, entry, now);
            }
            session::Action::OpenInbox => effects.open_inbox = true,
            session::Action::Learn { sent, at } => effects.learnt.push((sent, at)),
            session::Action::Granted { first, last } => match contender {
                Some(contender) => self.queue.handle(now, queue::Event::Granted { contender, first, last }),
                None => self.slots[index].session.handle(now, session::Event::Release { used: first }),
            },
            session::Action::Refused => {}
            session::Action::Failed(error) => {
                let error = error.on_lock(entry.name.clone());
                self.failure = contender.map(|contender| (contender, error));
                self.contender_ended(index, now);
            }
            session::Action::Lost(reason) => {
                if let Some(contender) = contender {
                    if let Some(token) = self.queue.held_token().filter(|t| self.queue.holder(*t) == Some(contender))
                        && let Some(hold) = self.take_hold(token)
                    {
                        effects.lose(now, hold, reason);
                    }
                    self.slots[index].contender = None;
                    self.queue.handle(now, queue::Event::Lost(contender));
                }
            }
            session::Action::Extended(done) => {
                self.answer_wishes(now, slot, false, done, || Settled::Extended(done), effects)
            }
            session::Action::Changed(token) => {
                let held = self.queue.held_token().and_then(|known| self.holds.iter().find(|h| h.token.n == known));
                if let (Some(token), Some(hold)) = (token, held) {
                    let before = hold.shown();
                    hold.show(token);
                    effects.notices.push(Notice::Changed { before, token: hold.shown() });
                }
                let done = token.is_some();
                self.answer_wishes(now, slot, true, done, || Settled::Changed(done), effects);
            }
            session::Action::Parted(granted) => self.parted(now, index, granted, effects),
            session::Action::Released(outcome) => {
                self.settle_release(|release| release.asked == Some(slot), outcome, effects);
            }
            session::Action::Ended => {
                if entry.layout.has_many_holders() {
                    engine.await_no_grant(self.slots[index].session.attempt());
                }
                self.contender_ended(index, now);
                self.retire(index, now, engine, effects);
            }
        }
    }

    /// Tells the session that holds under `token` what is wanted of it; whether there is one.
    fn wish(&mut self, now: Time, token: u64, event: session::Event<'_>, changes: bool, waiter: &Arc<Waiter>) -> bool {
        let contender = self.queue.holder(token);
        let Some(slot) = contender.and_then(|contender| self.slot_of(contender, now)) else { return false };
        slot.session.handle(now, event);
        let wish = Wish { slot: slot.id, changes, waiter: waiter.clone() };
        self.wishes.push_back(wish);
        true
    }

    /// One answer for all that are waiting for one: where it is not `done`, the store's refusal, if that is why.
    fn answer_wishes(
        &mut self,
        now: Time,
        slot: u64,
        changes: bool,
        done: bool,
        answer: impl Fn() -> Settled,
        effects: &mut Effects,
    ) {
        let session = self.slots.position(slot, now).and_then(|at| self.slots.get(at)).map(|slot| &slot.session);
        let refusal = session.filter(|_| !done).and_then(Session::refusal).cloned();
        let answer = || match &refusal {
            Some(error) => Settled::Refused(Refusal::Failed(error.clone())),
            None => answer(),
        };
        let position = |all: &Lent<Wish>| all.iter().position(|wish| (wish.slot, wish.changes) == (slot, changes));
        while let Some(wish) = position(&self.wishes).and_then(|at| self.wishes.remove(at)) {
            effects.settled.push((wish.waiter, answer()));
        }
    }

    /// The contender cannot ask the store.
    fn fail(&mut self, now: Time, contender: ContenderId, entry: &Entry, error: Error) {
        let failure = Some(error.on_lock(entry.name.clone()));
        self.queue.handle(now, queue::Event::Ended { contender, failure });
    }

    /// A step panicked, which is a defect of ours: what it left half done is not gone on with. Everybody is told the worst, nothing is
    /// renewed, what the store knows ends with its lease, and the lock may be asked for anew.
    fn give_up(&mut self, now: Time, panicked: Panicked, effects: &mut Effects) {
        effects.sends.clear();
        (effects.open_inbox, effects.hear_hints, effects.due) = (false, false, None);
        while let Some(task) = self.tasks.front().map(|task| task.id) {
            self.refuse(now, task, Refusal::Failed(defect()), effects);
        }
        for hold in self.holds.drain(..) {
            effects.lose(now, hold, LossReason::Expired);
        }
        for release in self.releases.drain(..) {
            effects.settled.push((release.waiter, Settled::Released(ReleaseOutcome::Unknown)));
        }
        for wish in self.wishes.drain(..) {
            let answer = if wish.changes { Settled::Changed(false) } else { Settled::Extended(false) };
            effects.settled.push((wish.waiter, answer));
        }
        effects.notices.push(Notice::Panicked(panicked));
    }

    fn contender_ended(&mut self, index: usize, now: Time) {
        if let Some(contender) = self.slots[index].contender.take() {
            let failure = self.failure.take_if(|(id, _)| *id == contender).map(|(_, error)| error);
            self.queue.handle(now, queue::Event::Ended { contender, failure });
        }
    }

    /// A slot whose session can contend: the entry keeps one that is through for its next contender.
    fn idle_slot(&mut self, entry: &Entry, engine: &Engine, now: Time, effects: &mut Effects) -> &mut Slot {
        let at = self.slots.idle(now).unwrap_or_else(|| {
            let mut session = Session::new(entry.layout.protocol(entry.key.clone()), engine.store_timeout());
            if let Some(room) = &mut effects.room {
                session.lend(&mut room.session);
            }
            self.slots.push(Slot { id: 0, contender: None, session, idle: true, listens: false, behind: false })
        });
        let slot = &mut self.slots[at];
        slot.forget(engine);
        slot.id = engine.next_slot();
        slot
    }

    fn retire(&mut self, index: usize, now: Time, engine: &Engine, effects: &mut Effects) {
        let another = self.slots.idle(now).is_some();
        let slot = &mut self.slots[index];
        slot.idle = true;
        slot.forget(engine);
        if slot.is_through() {
            effects.let_through.push(slot.id);
        }
        if another {
            self.slots.remove(index, now);
        }
    }

    fn tell(&mut self, contender: ContenderId, now: Time, event: session::Event<'_>) {
        if let Some(slot) = self.slot_of(contender, now) {
            slot.session.handle(now, event);
        }
    }

    fn detach(&mut self, contender: ContenderId, now: Time) {
        if let Some(slot) = self.slot_of(contender, now) {
            slot.contender = None;
        }
    }

    fn release(&mut self, now: Time, token: u64, waiter: Arc<Waiter>) {
        let left = self.queue.holder(token).and_then(|contender| {
            let slot = self.slot_of(contender, now)?;
            let left = slot.session.valid_until()?.since(now);
            slot.session.is_certain(now).then_some(left)
        });
        // The deadline is the truth, however late the wheel is.
        self.tick(now);
        self.releases.push_back(Release { token, asked: None, heir: None, waiter });
        self.queue.handle(now, queue::Event::Release { token, left });
    }

    /// The release that used `token` will be answered by the session of `contender`.
    fn release_goes_to(&mut self, now: Time, contender: ContenderId, token: u64, effects: &mut Effects) {
        let slot = self.slot_of(contender, now).map(|slot| slot.id);
        for release in self.releases.iter_mut().filter(|r| r.token == token && r.asked.is_none()) {
            release.asked = slot;
        }
        self.end_hold(now, token, effects);
    }

    fn settle_release(&mut self, which: impl Fn(&Release) -> bool, outcome: ReleaseOutcome, effects: &mut Effects) {
        let at = self.releases.iter().position(which);
        if let Some(release) = at.and_then(|at| self.releases.remove(at)) {
            let token = Token::new(release.token);
            let settled = match release.heir {
                Some(secret) if outcome == ReleaseOutcome::Released => {
                    effects.notices.push(Notice::Exported { token });
                    Settled::Exported(secret)
                }
                _ => {
                    effects.notices.push(Notice::Released { token, outcome: outcome.clone() });
                    Settled::Released(outcome)
                }
            };
            effects.settled.push((release.waiter, settled));
        }
    }

    fn grant(
        &mut self,
        now: Time,
        task: TaskId,
        token: u64,
        depth: u32,
        contender: ContenderId,
        effects: &mut Effects,
    ) {
        let at = self.slots.position_of(contender, now);
        let Some(Slot { session, .. }) = at.and_then(|at| self.slots.get(at)) else {
            let nobody =
                Error::new(Kind::Internal, "acquire", "granted to a contender that is gone; please report this");
            return self.refuse(now, task, Refusal::Failed(nobody), effects);
        };
        let way = match depth {
            1 if session.first_token() != token => Way::HandOff,
            1 if effects.pushed => Way::Push,
            1 => Way::Answer,
            _ => Way::Reentry,
        };
        let known = self.holds.iter().find(|hold| hold.token.n == token).cloned();
        let by = self.task(task).and_then(|task| task.by);
        let (attempt, ttl) = (session.attempt(), session.ttl());
        let until = session.valid_until().unwrap_or(Time::ZERO);
        let hold = known.unwrap_or_else(|| {
            let hold = Arc::new(Hold::new(Token::new(token), now, until, by));
            self.holds.push(hold.clone());
            hold
        });
        effects.heeds = self.push == Push::Inbox;
        if let Some(task) = self.take_task(task, effects) {
            let (token, waited) = (hold.token, now.since(task.since));
            effects.notices.push(Notice::Granted { token, attempt, ttl, waited, way });
            effects.settled.push((task.waiter, Settled::Granted { hold, depth }));
        }
    }

    fn refuse(&mut self, now: Time, task: TaskId, refused: Refusal, effects: &mut Effects) {
        if let Some(task) = self.take_task(task, effects) {
            let (why, waited) = (Why::from(&refused), now.since(task.since));
            effects.notices.push(Notice::Refused { why, waited });
            effects.settled.push((task.waiter, Settled::Refused(refused)));
        }
    }

    fn task_at(&self, task: TaskId) -> Option<usize> {
        self.tasks.binary_search_by_key(&task, |other| other.id).ok()
    }

    fn task(&self, task: TaskId) -> Option<&Task> {
        self.tasks.get(self.task_at(task)?)
    }

    fn take_task(&mut self, task: TaskId, effects: &mut Effects) -> Option<Task> {
        let at = self.task_at(task)?;
        let task = self.tasks.remove(at)?;
        let over = |owner| Waiting { owner, task: task.id, lenient: task.lenient, begins: false };
        effects.waits.extend(task.waits_as.filter(|_| task.said).map(over));
        self.unsaid -= u32::from(!task.said);
        self.hurrying -= u32::from(task.hurries);
        Some(task)
    }

    /// Why a task whose time limit passed did not get the lock: others have it, as far as anybody here knows, or the store has not said
    /// since it asked. `left` is how the contender stood that stood for the task alone.
    fn why_out_of_time(&mut self, now: Time, task: TaskId, left: Left) -> Refusal {
        let Left { silence, ahead } = left;
        let ahead = ahead.or_else(|| self.ahead_of(now, task));
        let held = self.queue.held_token().is_some();
        let Some(since) = self.task(task).filter(|_| !held).map(|task| task.since) else {
            return Refusal::TimedOut(ahead);
        };
        let silence = silence.or_else(|| self.silence(now)).and_then(|silence| silence.after(since, now));
        silence.map_or(Refusal::TimedOut(ahead), Refusal::Failed)
    }

    /// How many are ahead of a task that is not fair at most: at the store, and of this process.
    fn ahead_of(&mut self, now: Time, task: TaskId) -> Option<u32> {
        let here = u32::try_from(self.task_at(task)?).ok()?;
        let contender = self.queue.shared_contender()?;
        Some(self.slot_of(contender, now)?.session.ahead()?.saturating_add(here))
    }

    /// Why a task that only tries does not get the lock: somebody has it, or others here have asked for it in vain.
    fn why_taken(&mut self, now: Time) -> Refusal {
        let silence = if self.queue.held_token().is_none() { self.silence(now) } else { None };
        silence.and_then(|silence| silence.trouble).map_or(Refusal::Taken, Refusal::Failed)
    }

    /// What the store owes to the contender of all tasks that are not fair.
    fn silence(&mut self, now: Time) -> Option<session::Silence> {
        let contender = self.queue.shared_contender()?;
        self.slot_of(contender, now)?.session.silence()
    }

    /// There is nobody at the store's address.
    fn refuse_who_hurries(&mut self, now: Time, error: &Error, effects: &mut Effects) {
        while self.hurrying > 0
            && let Some(task) = self.tasks.iter().find(|task| task.hurries).map(|task| task.id)
        {
            self.queue.handle(now, queue::Event::Cancel(task));
            self.refuse(now, task, Refusal::Failed(error.clone()), effects);
        }
    }

    /// The task gave up, and is told so by [`part`](Self::part).
    fn let_part(&mut self, task: TaskId, by: Time, why: Refusal) {
        if let Some(task) = self.task_at(task).and_then(|at| self.tasks.get_mut(at)) {
            task.parts = Some(why);
            self.parting.push_back((by, task.id));
        }
    }

    /// The first of those who gave up and are not told yet, and what it will be told by when.
    fn first_parting(&mut self) -> Option<(Time, TaskId, Refusal)> {
        while let Some((by, task)) = self.parting.front().copied() {
            if let Some(why) = self.task(task).and_then(|task| task.parts.clone()) {
                return Some((by, task, why));
            }
            self.parting.pop_front();
        }
        self.parting = Lent::new();
        None
    }

    /// The store says what became of the place that a task gave up: granted before that, or not at all.
    fn parted(&mut self, now: Time, index: usize, granted: Option<u64>, effects: &mut Effects) {
        let Some((_, id, why)) = self.first_parting() else { return };
        let Some(token) = granted.map(Token::new) else { return self.refuse(now, id, why, effects) };
        let session = &self.slots[index].session;
        let (attempt, ttl) = (session.attempt(), session.ttl());
        let hold = Arc::new(Hold::new(token, now, now.after(ttl), None));
        self.holds.push(hold.clone());
        if let Some(task) = self.take_task(id, effects) {
            let waited = now.since(task.since);
            effects.notices.push(Notice::Granted { token, attempt, ttl, waited, way: Way::Answer });
            effects.settled.push((task.waiter, Settled::Granted { hold, depth: 1 }));
        }
    }

    /// Tells those who gave up so, once their places are gone or have taken too long to go.
    fn part(&mut self, now: Time, effects: &mut Effects) {
        if self.parting.is_empty() {
            return;
        }
        let undoing = self.slots.is_undoing(now);
        while let Some((by, task, why)) = self.first_parting()
            && (!undoing || by <= now)
        {
            let why = if self.push == Push::Place { Refusal::Failed(unsaid()) } else { why };
            self.refuse(now, task, why, effects);
        }
    }

    /// When the first of those who gave up is told so at the latest.
    fn next_parting(&self) -> Option<Time> {
        self.parting.front().map(|(by, _)| *by)
    }

    /// A task waits once somebody else of this process, or at the store, is known to have the lock or to come before it.
    fn say_who_waits(&mut self, effects: &mut Effects) {
        if self.unsaid == 0 {
            return;
        }
        let waits = |slot: &Slot| !slot.idle && slot.session.is_waiting();
        let wait = self.slots.worked().into_iter().any(|at| waits(&self.slots[at]));
        // Who came last stands behind; of those before, only who found nobody may not have been said to wait.
        for task in self.tasks.iter_mut().rev() {
            // None of very many before is left unsaid.
            if self.unsaid == 0 || (task.said && !wait) {
                break;
            }
            if task.said || !(wait || task.behind) {
                continue;
            }
            task.said = true;
            self.unsaid -= 1;
            let begun = |owner| Waiting { owner, task: task.id, lenient: task.lenient, begins: true };
            effects.waits.extend(task.waits_as.map(begun));
            effects.notices.push(Notice::Waits);
        }
    }

    /// Whoever polls is served in no order.
    fn refuse_the_fair(&mut self, now: Time, effects: &mut Effects) {
        let insists = |id: &TaskId| self.task(*id).is_some_and(|task| task.insists);
        let tasks: SmallVec<[TaskId; 4]> = self.queue.waiting_fairly().filter(insists).collect();
        for task in tasks {
            self.queue.handle(now, queue::Event::Cancel(task));
            self.refuse(now, task, Refusal::Failed(unfair()), effects);
        }
    }

    fn hold_of(&self, token: u64) -> Option<&Arc<Hold>> {
        self.holds.iter().find(|hold| hold.token.n == token)
    }

    fn take_hold(&mut self, token: u64) -> Option<Arc<Hold>> {
        let at = self.holds.iter().position(|hold| hold.token.n == token)?;
        Some(self.holds.remove(at))
    }

    fn end_hold(&mut self, now: Time, token: u64, effects: &mut Effects) {
        if let Some(hold) = self.take_hold(token) {
            effects.notices.push(Notice::Over { held: now.since(hold.since) });
            effects.ended.push(hold);
        }
    }

    fn tick(&mut self, now: Time) {
        self.queue.handle(now, queue::Event::Tick);
        for at in self.slots.due_by(now) {
            let slot = &mut self.slots[at];
            if !slot.idle && slot.session.poll_timeout().is_some_and(|at| at <= now) {
                slot.session.handle(now, session::Event::Tick);
            }
        }
    }

    /// Tells the hold in force until when it lasts.
    fn refresh_deadlines(&mut self, now: Time) {
        for hold in &self.holds {
            let contender = self.queue.holder(hold.token.n);
            let at = contender.and_then(|contender| self.slots.position_of(contender, now));
            let Some(session) = at.and_then(|at| self.slots.get(at)).map(|slot| &slot.session) else { continue };
            if let Some(until) = session.valid_until() {
                hold.prolong(until, &session.expires_as());
            }
        }
    }

    /// Asks the wheel to come, unless it will come early enough anyway.
    fn appoint(&mut self, now: Time, effects: &mut Effects) {
        let due = self.slots.first_due(now);
        let next = due.into_iter().chain(self.queue.poll_timeout()).chain(self.next_parting()).min();
        if let Some(next) = next
            && self.due.is_none_or(|due| next < due)
        {
            self.due = Some(next);
            effects.due = Some(next);
        }
    }
}

/// The error for a task that asked for `fair` where the store lets no client of ours subscribe.
pub(crate) fn unfair() -> Error {
    let message = "it cannot be fair here: the store does not let this user subscribe, so waiters poll in no order; grant \
                   the right, or leave fair out";
    Error::unsupported("acquire", message)
}

/// The error for a task whose time limit passed when what it waited for may have been granted.
fn unsaid() -> Error {
    let message = "the time limit is over, and the store does not say whether that was too late to give up; see whether the others went on";
    Error::new(Kind::Unavailable, "acquire", message)
}

fn restored() -> Error {
    let message = "this process was restored from a copy of itself while it waited; acquire the lock again";
    Error::new(Kind::Forked, "acquire", message)
}

/// The error for a task that waited when its lock was given up.
fn defect() -> Error {
    let message = "this library panicked, and gave up what it was doing with this lock; please report the panic, which the log has";
    Error::new(Kind::Internal, "acquire", message)
}

fn closed() -> Error {
    Error::new(Kind::Closed, "acquire", "the client was closed; connect again")
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it takes beside this: the hold, key and name, the protocol, its place in the wheel and among the
    /// client's entries, and the guard.
    #[test]
    fn a_lock_that_is_held_takes_little_memory() {
        let (entry, hold) = (size_of::<Entry>(), size_of::<Hold>());
        assert!(entry <= 848 && hold <= 72, "an entry has {entry} bytes, a hold {hold}");
    }
}
