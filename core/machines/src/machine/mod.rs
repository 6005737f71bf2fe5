//! One lock of one client as one pure machine: its queue, its sessions, and the tasks, holds and releases that wait for
//! them.
//!
//! The [queue] knows who of this process is next, a [session] how one contender fares at the store. The machine joins
//! the two: what the queue wants becomes an event of a session and the other way round, until neither has more to say.
//! Whatever is left leaves as [`Effects`]: writes to send, answers for those who wait, holds that are lost.
//!
//! It has no clock, no mutex and no socket. Each [`Step`] brings the time, and an [`Environment`] that mints attempts
//! and listens for the lock. What its caller knows waiting tasks and holds by is the caller's own ([`Handles`]). The
//! driver, the explorer and the simulation all run this machine.
//!
//! | file | what it is about |
//! |---|---|
//! | `environment` | what a machine is handed, and what it asks for |
//! | `effects` | what leaves it |
//! | `notice` | what happened, for logs and figures |
//! | `tasks` | who wants the lock: granted, refused, said to wait |
//! | `parting` | who gives up at a time limit, and is told so once its place is gone |
//! | `pending` | what waits in it for an answer |
//! | `holds` | who has the lock, extends it, changes how much of it |
//! | `releases` | who gives it back, or exports it |
//! | `kept` | a machine that rests while its lock is simply held, since a client may have very many |
//! | `slots` | the sessions, found at once among very many |
//! | `listening` | how a session hears that it is its turn |
//! | `line_up` | in which order a client's waiters ask for places once it can hear |
//! | `talk` | queue and sessions talk until both are silent |
//! | `end` | a client that closes, a copy of a process, a defect |
//! | `state` | copies and fingerprints, for those who explore |

mod effects;
mod end;
mod environment;
mod holds;
mod kept;
mod line_up;
mod listening;
mod notice;
mod parting;
mod pending;
mod releases;
mod slots;
mod state;
mod talk;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

pub use self::effects::{Effects, Outgoing, Settled, Settlement, Waiting};
pub use self::environment::{Environment, Handles, Held, Hold, Kind, Scratch, Step};
pub use self::kept::{Kept, Spare};
pub use self::line_up::LineUp;
pub use self::listening::Turn;
pub use self::notice::{Notice, Way, Why};
pub use self::parting::PARTING;
pub use self::pending::Demand;
pub use self::tasks::unfair;

use self::pending::{Release, Task, Wish};
use self::slots::{Slot, Slots};
use crate::error::{Error, is_nobody_there};
use crate::lent::Lent;
use crate::protocol::{AttemptId, Op, Push, StoreEvent};
use crate::queue::{self, ContenderId, HoldId, Queue, TaskId};
use crate::session::{self, Answer, Inbox, RequestId, Session};
use crate::time::Time;
use crate::token::Token;

/// What a machine is told.
#[derive(Debug)]
pub enum Event<'a, H: Handles> {
    /// A task wants the lock. Answered with [`Settled::Granted`] or [`Settled::Refused`].
    Acquire { demand: Demand<'a>, waiter: H::Waiter },
    /// A task is gone. `granted` is the hold that it was granted and never took up, which is given back.
    Cancel { task: TaskId, granted: Option<H::Hold> },
    /// A task shall not get the lock, for this reason.
    Refuse { task: TaskId, error: Error },
    /// No task that waits shall get the lock, for this reason.
    RefuseAll { error: &'a Error },
    /// One level of a hold is given back, which showed `token`. Answered with [`Settled::Released`].
    Release { hold: HoldId, token: Option<Token>, waiter: H::Waiter },
    /// A hold, which showed `token`, is left to `secret` for `ttl`. Answered with [`Settled::Exported`], or with
    /// [`Settled::Released`] or [`Settled::Refused`] where the secret does not have it.
    Export { hold: HoldId, token: Option<Token>, secret: AttemptId, ttl: Duration, waiter: H::Waiter },
    /// Nobody was told `secret`, or wants it any more: what it holds is given back.
    Retract { secret: AttemptId },
    /// A hold shall last `ttl` from now. Answered with [`Settled::Extended`] or [`Settled::Refused`].
    Extend { hold: HoldId, ttl: Duration, waiter: H::Waiter },
    /// A hold shall be of so many units. Answered with [`Settled::Changed`] or [`Settled::Refused`].
    Change { hold: HoldId, units: u32, waiter: H::Waiter },
    /// Whoever has a hold wants to hear when somebody asks for it back.
    Heed { hold: HoldId },
    /// A guard of a hold was forgotten: once no other guard of it is left nothing prolongs its lease.
    Abandon { hold: HoldId },
    /// The answer to a [`Outgoing`]; each gets exactly one. `sent` is when the write left.
    Answered { slot: u64, id: RequestId, sent: Time, answer: Answer<'a> },
    /// The store pushed something for this lock.
    Pushed(&'a StoreEvent),
    /// An operator broke the hold under `token`, as the store says: whoever has it here hears of it, the others ask the
    /// store.
    Broken { token: u64 },
    /// The client's inbox changed. `Live` again means that pushes may have been missed.
    Inbox(Inbox),
    /// What is heard on a channel of this lock changed.
    Channel { channel: &'a str, state: Inbox },
    /// This client's session at the store lives until then.
    Alive(Time),
    /// That session ended: every hold that was bound to it is lost.
    Over,
    /// The store may have forgotten what it promised (restart, failover): check at once.
    Verify,
    /// Time passed.
    Tick,
    /// The client closes: whoever waits is refused, holders are told, and everything is given back.
    Close,
    /// This process goes on from a copy of itself: whoever waits or holds is told, and the store hears nothing, since
    /// it could not tell this process from the other.
    Forsake,
}

/// See the [module](self).
pub struct LockMachine<H: Handles> {
    queue: Queue,
    slots: Slots,
    /// In the order in which they came.
    tasks: Lent<Task<H::Waiter>>,
    /// How many of them were not yet said to wait.
    unsaid: u32,
    /// How many of them only try.
    hurrying: u32,
    /// Those of them that gave up, and when at the latest they are told so: once their place is gone. Some may have
    /// gone since.
    parting: Lent<(Time, TaskId)>,
    holds: SmallVec<[H::Hold; 1]>,
    releases: Lent<Release<H::Waiter>>,
    /// Extensions and changes, by slot.
    wishes: Lent<Wish<H::Waiter>>,
    /// Why the contender that is about to end failed.
    failure: Option<(ContenderId, Error)>,
    /// The holder card of whoever asked last.
    card: Option<Arc<str>>,
    closed: bool,
    /// How its waiters are told.
    push: Push,
    /// Several may have it at once, each as a contender of its own.
    has_many_holders: bool,
    /// Whoever holds all of it keeps the others out: it is no semaphore, and no gate.
    is_of_holders: bool,
    /// What is held lasts as long as this client's session at the store.
    bound: bool,
}

impl<H: Handles> LockMachine<H> {
    /// The machine of a lock that nobody here wanted yet.
    pub fn new(kind: Kind) -> Self {
        let Kind { block, push, has_many_holders, is_of_holders, bound } = kind;
        LockMachine {
            queue: Queue::new(block.into()),
            slots: Slots::new(),
            tasks: Lent::new(),
            unsaid: 0,
            hurrying: 0,
            parting: Lent::new(),
            holds: SmallVec::new(),
            releases: Lent::new(),
            wishes: Lent::new(),
            failure: None,
            card: None,
            closed: false,
            push,
            has_many_holders,
            is_of_holders,
            bound,
        }
    }

    /// One of another kind, as long as nobody wanted it.
    fn become_one_of(&mut self, kind: Kind) {
        let Kind { block, push, has_many_holders, is_of_holders, bound } = kind;
        self.queue.set_block(block.into());
        (self.push, self.bound) = (push, bound);
        (self.has_many_holders, self.is_of_holders) = (has_many_holders, is_of_holders);
    }

    /// Takes one event. What follows from it is added to the effects of `step`.
    pub fn handle(&mut self, step: &mut Step<'_, H>, event: Event<'_, H>) {
        self.work(step, |machine, step| match event {
            Event::Acquire { demand, waiter } => machine.acquire(step, demand, waiter),
            Event::Cancel { task, granted } => machine.cancel(step, task, granted),
            Event::Refuse { task, error } => machine.turn_away(step, task, error),
            Event::RefuseAll { error } => machine.turn_all_away(step, error),
            Event::Release { hold, token, waiter } => machine.release(step, hold, token, waiter),
            Event::Export { hold, token, secret, ttl, waiter } => {
                let release = Release { hold, token, asked: None, heir: Some(secret), waiter };
                machine.export(step, release, secret, ttl);
            }
            Event::Retract { secret } => machine.retract(step, secret),
            Event::Extend { hold, ttl, waiter } => machine.extend(step, hold, ttl, waiter),
            Event::Change { hold, units, waiter } => machine.change(step, hold, units, waiter),
            Event::Heed { hold } => machine.heed(step.now, hold),
            Event::Abandon { hold } => machine.queue.handle(step.now, queue::Event::Abandon { hold }),
            Event::Answered { slot, id, sent, answer } => machine.answered(step, slot, id, sent, answer),
            Event::Pushed(event) => machine.pushed(step, event),
            Event::Broken { token } => machine.broken(step.now, token),
            Event::Inbox(inbox) => machine.inbox_changed(step, inbox),
            Event::Channel { channel, state } => machine.channel_changed(step.now, channel, state),
            Event::Alive(until) if machine.bound => {
                machine.every_session(|session| session.handle(step.now, session::Event::Alive(until)));
            }
            Event::Over if machine.bound => {
                machine.every_session(|session| session.handle(step.now, session::Event::Over));
            }
            Event::Alive(_) | Event::Over => {}
            Event::Verify => machine.every_session(|session| session.handle(step.now, session::Event::Verify)),
            Event::Tick => machine.tick(step.now),
            Event::Close => machine.close(step),
            Event::Forsake => machine.forsake(step),
        });
    }

    /// The contender of `slot`, if it still [stands behind others](Environment::line_up), may ask for a place: at once
    /// if it waits, else if it is the `first` of all, once it is answered.
    pub fn let_in(&mut self, step: &mut Step<'_, H>, slot: u64, first: bool) -> Turn {
        self.work(step, |machine, step| machine.let_one_in(step.now, slot, first))
    }

    /// Does some work in memory that is lent for as long, and lets queue and sessions talk about it.
    fn work<T>(&mut self, step: &mut Step<'_, H>, work: impl FnOnce(&mut Self, &mut Step<'_, H>) -> T) -> T {
        self.borrow_from(step.scratch);
        let done = work(self, step);
        self.talk(step);
        self.give_back_to(step.scratch);
        done
    }

    fn borrow_from(&mut self, scratch: &mut Scratch<H>) {
        self.queue.lend(&mut scratch.queue);
        scratch.tasks.lend(&mut self.tasks);
        scratch.releases.lend(&mut self.releases);
        self.slots.begin();
        if !self.slots.is_empty() {
            self.slots.aside(0).session.lend(&mut scratch.session);
        }
    }

    fn give_back_to(&mut self, scratch: &mut Scratch<H>) {
        self.queue.reclaim(&mut scratch.queue);
        scratch.tasks.take_back(&mut self.tasks);
        scratch.releases.take_back(&mut self.releases);
        self.slots.each_worked(|slot| slot.session.reclaim(&mut scratch.session));
    }

    /// When to [tick](Event::Tick) at the latest; `None` while only an event can change anything. Looks at every
    /// contender.
    pub fn poll_timeout(&self) -> Option<Time> {
        let sessions = self.slots.iter().filter(|slot| !slot.idle).filter_map(|slot| slot.session.poll_timeout());
        let others = [self.queue.poll_timeout(), self.next_parting(), self.next_disappointment()];
        sessions.chain(others.into_iter().flatten()).min()
    }

    /// When to tick, for whoever would rather come once too often than be told of each change: while a renewal is
    /// unanswered, when the next one will be due if it is answered soon. Looks at no more contenders than took part
    /// since the last time.
    pub fn next_look(&mut self, now: Time) -> Option<Time> {
        let sessions = self.slots.first_due(now);
        let others = [sessions, self.queue.poll_timeout(), self.next_parting(), self.next_disappointment()];
        others.into_iter().flatten().min()
    }

    /// Whether nothing of this lock is held, wanted or left at the store.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle() && !self.is_at_store()
    }

    /// Whether the store may know of a contender of this lock.
    pub fn is_at_store(&self) -> bool {
        self.slots.iter().any(|slot| !slot.idle)
    }

    /// Whether a task waits for it yet.
    pub fn waits(&self, task: TaskId) -> bool {
        self.task_at(task).is_some()
    }

    /// The hold in force, and whether it goes on until it is given back.
    pub fn held(&mut self, now: Time) -> Option<(&H::Hold, bool)> {
        let hold = self.queue.held()?;
        let slot = self.queue.holder(hold).and_then(|contender| self.slots.position_of(contender, now));
        let is_endless = slot.is_some_and(|at| self.slots.aside(at).session.is_endless());
        Some((self.hold_of(hold)?, is_endless))
    }

    /// How many are ahead at most of each contender that waits for it, by the number of its slot.
    pub fn places(&self) -> impl Iterator<Item = (u64, u32)> {
        self.slots.iter().filter_map(|slot| Some((slot.id, slot.session.ahead()?)))
    }

    fn answered(&mut self, step: &mut Step<'_, H>, slot: u64, id: RequestId, sent: Time, answer: Answer<'_>) {
        let Some(at) = self.slots.position(slot, step.now) else { return };
        let session = &mut self.slots[at].session;
        if id.op == Op::Renew && session.awaits(id) {
            let held = self.queue.held_token();
            return step.effects.notices.extend(renewed(session, held, step.now, (id, sent, answer)));
        }
        let nobody_there = match &answer {
            Answer::NotSent(error) if is_nobody_there(error) => Some(error.clone()),
            _ => None,
        };
        session.handle(step.now, session::Event::Reply { id, sent, answer });
        if let Some(error) = nobody_there {
            self.refuse_who_hurries(step, &error);
        }
    }

    fn pushed(&mut self, step: &mut Step<'_, H>, event: &StoreEvent) {
        let now = step.now;
        step.pushed = true;
        match event {
            StoreEvent::Granted { attempt, .. } | StoreEvent::Broken { attempt } | StoreEvent::Turn { attempt } => {
                for at in self.slots.positions_for(*attempt, now) {
                    if !self.slots[at].idle {
                        self.slots[at].session.handle(now, session::Event::Push(event));
                    }
                }
            }
            StoreEvent::Next { tail } => {
                let next = |slot: &Slot| !slot.idle && slot.session.attempt().tail() == *tail;
                if let Some(at) = self.slots.iter().position(next) {
                    self.slots[at].session.handle(now, session::Event::Push(event));
                }
            }
            StoreEvent::Dropped
            | StoreEvent::Changed { .. }
            | StoreEvent::Gone { .. }
            | StoreEvent::BrokenAt { .. } => {
                self.every_session(|session| session.handle(now, session::Event::Push(event)));
            }
        }
    }

    fn broken(&mut self, now: Time, token: u64) {
        let holder = self.queue.held().and_then(|held| self.queue.holder(held));
        let slot = holder.and_then(|holder| self.slot_of(holder, now));
        match slot.filter(|slot| slot.session.has_token(token)) {
            Some(slot) => {
                let attempt = slot.session.attempt();
                slot.session.handle(now, session::Event::Push(&StoreEvent::Broken { attempt }));
            }
            None => self.every_session(|session| session.handle(now, session::Event::Verify)),
        }
    }

    fn tick(&mut self, now: Time) {
        self.queue.handle(now, queue::Event::Tick);
        self.slots.each_due(now, |slot| {
            if !slot.idle {
                slot.session.look(now);
            }
        });
    }

    /// The slot whose session stands for `contender`.
    fn slot_of(&mut self, contender: ContenderId, now: Time) -> Option<&mut Slot> {
        let at = self.slots.position_of(contender, now)?;
        Some(&mut self.slots[at])
    }

    fn every_session(&mut self, mut each: impl FnMut(&mut Session)) {
        self.slots.each(|slot| each(&mut slot.session));
    }
}

impl<H: Handles> std::fmt::Debug for LockMachine<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sessions = f.debug_list();
        for slot in self.slots.iter().filter(|slot| !slot.idle) {
            sessions.entry(&slot.session);
            if slot.contender.is_none() {
                sessions.entry(&format_args!("(not wanted any more)"));
            }
        }
        sessions.finish()
    }
}

/// Tells a hold until when its session says that it lasts.
fn refresh(hold: &mut impl Hold, session: &Session) {
    if let Some(until) = session.valid_until() {
        hold.prolong(until, &session.expires_as());
    }
}

/// A session's renewal is answered, or was not: what became of it; nothing to say when the hold ended with it. `held`
/// is the token that the hold shows, where the queue knows one.
fn renewed(
    session: &mut Session,
    held: Option<u64>,
    now: Time,
    (id, sent, answer): (RequestId, Time, Answer<'_>),
) -> Option<Notice> {
    let error = match &answer {
        Answer::Replies(_) | Answer::Partly { .. } => None,
        Answer::NotSent(error) | Answer::Unknown { error, .. } => Some(error.clone()),
    };
    session.handle(now, session::Event::Reply { id, sent, answer });
    let (attempt, ttl) = (session.attempt(), session.ttl());
    let token = held.or_else(|| session.first_token()).map(Token::new);
    let error = error.or_else(|| session.not_renewed().cloned());
    match session.valid_until() {
        _ if error.is_some() || session.is_failing() => Some(Notice::NotRenewed { token, attempt, error }),
        Some(_) => Some(Notice::Renewed { token, attempt, ttl }),
        None => None,
    }
}

/// How many are ahead of each of these [places](LockMachine::places), of however many machines, in the order in which
/// they came.
pub fn ahead_of_each(places: impl Iterator<Item = (u64, u32)>) -> Vec<u32> {
    let mut all: Vec<_> = places.collect();
    all.sort_unstable();
    all.into_iter().map(|(_, ahead)| ahead).collect()
}
