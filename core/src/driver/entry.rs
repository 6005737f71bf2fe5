//! One lock of one client: its [machine] under a mutex, and what the machine asks of the client meanwhile.
//!
//! Every change happens under the mutex, without I/O, in memory that the thread lends. What comes of it leaves as
//! [`Effects`], for the engine to perform once the mutex is free.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_machines::machine::{
    self, Demand, Environment, Event, Kept, Kind, Outgoing, Scratch, Spare, Step, Turn,
};
use lockwright_machines::queue::{HoldId, OwnerId, TaskId};

use super::engine::Engine;
use super::entries::Keyed;
use super::hold::{Hold, SharedHold};
use super::lent::{Lendable, borrow, give_back};
use super::notice;
use super::owners::Here;
use super::wait::{Settled, Waiter};
use crate::error::{Error, Result};
use crate::platform::clock;
use crate::platform::fence::caught;
use crate::platform::fork;
use crate::platform::mutex::locked;
use crate::protocol::{AttemptId, Channel, InboxId, Layout, Op, Protocol, Requests, StoreEvent};
use crate::session::{Answer, Inbox, RequestId};
use crate::share::Share;
use crate::stores::Answered;
use crate::time::Time;

/// What the driver knows waiting tasks and holds by.
#[derive(Debug)]
pub(crate) enum Handles {}

impl machine::Handles for Handles {
    type Waiter = Arc<Waiter>;
    type Hold = SharedHold;
}

type Machine = Kept<Handles>;

/// A lock of a client. Lives as long as somebody names it, or something of it is left at the store.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) layout: Arc<dyn Layout>,
    state: Mutex<State>,
}

struct State {
    machine: Machine,
    /// When the timer queue will look at this entry.
    due: Option<Time>,
    /// Keeps the entry alive while the store may know of it.
    alive: Option<Arc<Entry>>,
}

/// A write to perform.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) entry: Arc<Entry>,
    pub(crate) slot: u64,
    pub(crate) id: RequestId,
    pub(crate) requests: Requests,
}

impl Outbound {
    pub(crate) fn of(entry: &Arc<Entry>, Outgoing { slot, id, requests }: Outgoing) -> Self {
        Outbound { entry: entry.clone(), slot, id, requests }
    }

    /// It ended so.
    pub(crate) fn answered(&self, engine: &Engine, Answered { sent, outcome }: &Answered) -> Effects {
        self.entry.answered(engine, (self.slot, self.id), *sent, outcome.as_answer())
    }
}

/// What is to be done once the entry's mutex is free. It lies in memory that the thread lends: on its way it is handed
/// on a dozen times, each of which would copy a kilobyte.
#[derive(Debug)]
#[must_use = "effects must be performed"]
pub(crate) struct Effects(Box<Contents>);

/// What a machine wants done.
pub(crate) type Wanted = machine::Effects<Handles>;

/// See [`Effects`].
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) machine: Wanted,
    /// The timer queue must look at the entry by then.
    pub(crate) due: Option<Time>,
    /// What it is of has so many permits, and not as many as this client says.
    pub(super) permits: Option<u32>,
}

impl Effects {
    fn at(now: Time) -> Self {
        let new = || Box::new(Contents { machine: machine::Effects::at(now), due: None, permits: None });
        let mut contents = borrow(&CONTENTS).unwrap_or_else(new);
        contents.machine.at = now;
        Effects(contents)
    }

    /// Whether somebody gets its result.
    pub(crate) fn tells(&self) -> bool {
        self.machine.tells()
    }

    /// Gives the memory back once everything was taken out.
    pub(crate) fn give_back(mut self) {
        self.machine.clear();
        (self.due, self.permits) = (None, None);
        give_back(&CONTENTS, self.0);
    }
}

impl Deref for Effects {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.0
    }
}

impl DerefMut for Effects {
    fn deref_mut(&mut self) -> &mut Contents {
        &mut self.0
    }
}

thread_local! {
    /// Lent to what the thread wants done next.
    static CONTENTS: Lendable<Box<Contents>> = const { Cell::new(None) };
    /// Lent to the entry that the thread works on.
    static MEMORY: Lendable<Box<Memory>> = const { Cell::new(None) };
    /// What the thread was granted lately.
    static GRANTED: RefCell<Granted> = const { RefCell::new(Granted::NOTHING) };
}

/// The locks that a thread was granted lately. Whoever takes and gives back the same few again and again need not have
/// them rest each time.
struct Granted {
    /// Whose copy of this memory that was.
    image: u64,
    entries: [Weak<Entry>; Granted::MOST],
    /// Where the next has its place, in which the one that came before all others is.
    next: usize,
}

impl Granted {
    const MOST: usize = 32;
    const NOTHING: Granted = Granted { image: 0, entries: [const { Weak::new() }; Granted::MOST], next: 0 };

    /// This one was granted. The one that has to make room for it, if that is needed.
    fn add(&mut self, entry: &Arc<Entry>, image: u64) -> Option<Arc<Entry>> {
        if self.image != image {
            // What was granted before a fork is its parent's, of which some thread may have been at work on it.
            *self = Granted { image, ..Granted::NOTHING };
        }
        if self.entries.iter().any(|known| known.as_ptr() == Arc::as_ptr(entry)) {
            return None;
        }
        let place = &mut self.entries[self.next];
        self.next = (self.next + 1) % Granted::MOST;
        std::mem::replace(place, Arc::downgrade(entry)).upgrade()
    }
}

/// In which machines work.
#[derive(Default)]
struct Memory {
    scratch: Scratch<Handles>,
    spare: Spare<Handles>,
}

/// What the machine of an entry may ask of its client.
struct Surroundings<'a> {
    engine: &'a Engine,
    entry: &'a Arc<Entry>,
}

impl Environment for Surroundings<'_> {
    fn name(&self) -> &Arc<str> {
        &self.entry.name
    }

    fn protocol(&self) -> Box<dyn Protocol> {
        self.entry.layout.protocol(self.entry.key.clone())
    }

    fn store_timeout(&self) -> Duration {
        self.engine.store_timeout()
    }

    fn mint(&mut self) -> Result<AttemptId> {
        self.engine.mint()
    }

    fn inbox_id(&mut self) -> Result<InboxId> {
        self.engine.inbox_id()
    }

    fn inbox(&self) -> Inbox {
        self.engine.inbox()
    }

    fn alive_until(&self) -> Time {
        self.engine.alive_until()
    }

    fn next_slot(&mut self) -> u64 {
        self.engine.next_slot()
    }

    fn line_up(&mut self, slot: u64) -> (Inbox, bool) {
        self.engine.line_up.join(slot, self.entry, || self.engine.inbox())
    }

    fn await_grant(&mut self, attempt: AttemptId) {
        self.engine.await_grant(attempt, self.entry);
    }

    fn await_no_grant(&mut self, attempt: AttemptId) {
        self.engine.await_no_grant(attempt);
    }

    fn subscribe(&mut self, slot: u64, channel: Channel<'_>) -> Inbox {
        self.engine.listen(slot, channel, &self.entry.key)
    }

    fn unsubscribe(&mut self, slot: u64) {
        self.engine.listen_no_more(slot);
    }
}

impl Entry {
    pub(crate) fn new(name: Arc<str>, key: Arc<str>, layout: Arc<dyn Layout>) -> Self {
        let machine = Kept::new(Kind::of(&*layout, &key));
        let state = Mutex::new(State { machine, due: None, alive: None });
        Entry { name, key, layout, state }
    }

    /// A task wants the lock; `waiter` gets the result. Which task that is, is found here: those of one lock are
    /// numbered in the order in which they come.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        engine: &Engine,
        mut demand: Demand<'_>,
        waiter: &Arc<Waiter>,
    ) -> (TaskId, Effects) {
        let effects = self.with(engine, |machine, step, spare| {
            demand.ask.task = engine.next_task();
            // Looked at here, where a drain that begins in this moment comes before or after.
            match engine.check_not_drained() {
                Ok(()) => machine.handle(step, spare, Event::Acquire { demand, waiter: waiter.clone() }),
                Err(error) => step.refuse(waiter.clone(), error),
            }
        });
        (demand.ask.task, effects)
    }

    /// The task is gone. If it was granted the lock meanwhile, that is given back.
    pub(crate) fn cancel(self: &Arc<Self>, engine: &Engine, task: TaskId, waiter: &Arc<Waiter>) -> Effects {
        self.with(engine, |machine, step, spare| {
            let granted = match waiter.refuse() {
                Some(Settled::Granted { hold, .. }) => Some(hold),
                _ => None,
            };
            // Granted by another thread that is about to tell it, finds nobody, and gives it back.
            let untold = machine.held(step.now).filter(|(hold, _)| granted.is_none() && hold.id == HoldId(task.0));
            if let Some((hold, _)) = untold {
                hold.will_find_nobody();
            }
            machine.handle(step, spare, Event::Cancel { task, granted });
        })
    }

    /// One level of a hold is given back; `waiter` gets the outcome.
    pub(crate) fn release(self: &Arc<Self>, engine: &Engine, hold: &Hold, waiter: &Arc<Waiter>) -> Effects {
        let (hold, token) = (hold.id, hold.shown());
        self.handle(engine, Event::Release { hold, token, waiter: waiter.clone() })
    }

    /// A hold is left to `secret` for `ttl`; `waiter` gets the outcome, or nothing changes and it is
    /// refused.
    pub(crate) fn export(
        self: &Arc<Self>,
        engine: &Engine,
        hold: &Hold,
        secret: AttemptId,
        ttl: Duration,
        waiter: &Arc<Waiter>,
    ) -> Effects {
        let (hold, token) = (hold.id, hold.shown());
        self.handle(engine, Event::Export { hold, token, secret, ttl, waiter: waiter.clone() })
    }

    /// A hold shall last `ttl` from now; `waiter` hears whether it does.
    pub(crate) fn extend(
        self: &Arc<Self>,
        engine: &Engine,
        hold: &Hold,
        ttl: Duration,
        waiter: &Arc<Waiter>,
    ) -> Effects {
        self.handle(engine, Event::Extend { hold: hold.id, ttl, waiter: waiter.clone() })
    }

    /// A hold shall be of so many units; `waiter` hears whether it is.
    pub(crate) fn change(self: &Arc<Self>, engine: &Engine, hold: &Hold, units: u32, waiter: &Arc<Waiter>) -> Effects {
        self.handle(engine, Event::Change { hold: hold.id, units, waiter: waiter.clone() })
    }

    /// Whoever has a hold wants to hear when somebody asks for it back.
    pub(crate) fn heed(self: &Arc<Self>, engine: &Engine, hold: &Hold) -> Effects {
        self.handle(engine, Event::Heed { hold: hold.id })
    }

    /// A guard of a hold was forgotten: once no other guard of it is left, the lease may run out, and nothing
    /// prolongs it.
    pub(crate) fn abandon(self: &Arc<Self>, engine: &Engine, hold: &Hold) -> Effects {
        self.handle(engine, Event::Abandon { hold: hold.id })
    }

    /// Nobody was told `secret`, or wants it any more: what it holds is given back.
    pub(crate) fn retract(self: &Arc<Self>, engine: &Engine, secret: AttemptId) -> Effects {
        self.handle(engine, Event::Retract { secret })
    }

    /// A write of this entry, sent then, ended so.
    pub(crate) fn answered(
        self: &Arc<Self>,
        engine: &Engine,
        (slot, id): (u64, RequestId),
        sent: Time,
        answer: Answer<'_>,
    ) -> Effects {
        let permits = match answer {
            Answer::Replies(replies) if id.op == Op::Acquire => self.layout.other_permits(replies),
            _ => None,
        };
        let mut effects = self.handle(engine, Event::Answered { slot, id, sent, answer });
        effects.permits = permits;
        effects
    }

    /// The store pushed something for this lock.
    pub(crate) fn pushed(self: &Arc<Self>, engine: &Engine, event: &StoreEvent) -> Effects {
        self.handle(engine, Event::Pushed(event))
    }

    /// The client's inbox changed.
    pub(crate) fn inbox(self: &Arc<Self>, engine: &Engine, inbox: Inbox) -> Effects {
        self.handle(engine, Event::Inbox(inbox))
    }

    /// The contender of `slot`, if it still stands behind others, may ask for a place: at once if it waits, else if it
    /// is the `first` of all, once it is answered.
    pub(super) fn let_in(self: &Arc<Self>, engine: &Engine, slot: u64, first: bool) -> (Turn, Effects) {
        let mut turn = Turn::Over;
        let effects =
            self.with(engine, |machine, step, spare| turn = machine.wake(step, spare).let_in(step, slot, first));
        (turn, effects)
    }

    /// An operator broke the hold under `token`, as the store says: whoever has it here is told so, the others ask the
    /// store.
    pub(crate) fn broken(self: &Arc<Self>, engine: &Engine, token: u64) -> Effects {
        self.handle(engine, Event::Broken { token })
    }

    /// How many are ahead at most of each contender that waits for it here, by its slot.
    pub(crate) fn places(&self) -> Vec<(u64, u32)> {
        if self.layout.is_held() { locked(&self.state).machine.places().collect() } else { Vec::new() }
    }

    /// What is heard on a channel of this lock changed.
    pub(crate) fn channel(self: &Arc<Self>, engine: &Engine, channel: &str, state: Inbox) -> Effects {
        self.handle(engine, Event::Channel { channel, state })
    }

    /// The client's session at the store lives until then.
    pub(crate) fn alive(self: &Arc<Self>, engine: &Engine, until: Time) -> Effects {
        self.handle(engine, Event::Alive(until))
    }

    /// The client's session at the store is over.
    pub(crate) fn session_over(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.handle(engine, Event::Over)
    }

    /// The store may have forgotten what it promised.
    pub(crate) fn verify(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.handle(engine, Event::Verify)
    }

    /// The timer queue looks at the entry.
    pub(crate) fn tick(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with_timer(engine, |machine, due, step, spare| {
            // A timer that a sooner one made needless changes nothing, so that they do not multiply.
            due.take_if(|due| *due <= step.now);
            machine.handle(step, spare, Event::Tick);
        })
    }

    /// A waiting thread's own deadline passed: the same as the timer queue's look, whose timer stays.
    pub(crate) fn expire(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.handle(engine, Event::Tick)
    }

    /// The client closes: waiting tasks are refused, holders told, and everything is given back.
    pub(crate) fn close(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.handle(engine, Event::Close)
    }

    /// This process goes on from a copy of itself: whoever waits or holds is told, and the store hears nothing, since
    /// it could not tell this process from the other.
    pub(crate) fn forsake(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.handle(engine, Event::Forsake)
    }

    /// Who of this client holds it.
    pub(crate) fn holder_here(&self) -> Option<Here> {
        let (mut state, now) = (locked(&self.state), clock::now());
        let (hold, is_endless) = state.machine.held(now)?;
        Some(Here { by: hold.by(), held_for: now.since(hold.since), is_endless })
    }

    /// Who of this client keeps `task` from it until that one gives it back, if that is known; nothing where the task
    /// waits no more.
    pub(crate) fn kept_from(&self, task: TaskId, now: Time) -> Option<Option<OwnerId>> {
        let mut state = locked(&self.state);
        if !state.machine.waits(task) {
            return None;
        }
        let holder = state.machine.held(now).filter(|(hold, is_endless)| *is_endless && !hold.is_abandoned());
        Some(holder.and_then(|(hold, _)| hold.by()))
    }

    /// Whether a task waits for it yet.
    pub(crate) fn waits(&self, task: TaskId) -> bool {
        locked(&self.state).machine.waits(task)
    }

    /// Whether it is for a reader, whom other readers do not keep out.
    pub(crate) fn is_for_a_reader(&self) -> bool {
        self.layout.share() == Some(Share::READ)
    }

    /// The task would wait without end.
    pub(crate) fn refuse(self: &Arc<Self>, engine: &Engine, task: TaskId, error: Error) -> Effects {
        self.handle(engine, Event::Refuse { task, error })
    }

    /// Nobody is to wait for it any more.
    pub(crate) fn refuse_all(self: &Arc<Self>, engine: &Engine, why: &Error) -> Effects {
        self.handle(engine, Event::RefuseAll { error: why })
    }

    /// Whether nothing of this lock is held, wanted or left at the store.
    pub(crate) fn is_idle(&self) -> bool {
        locked(&self.state).machine.is_idle()
    }

    fn handle(self: &Arc<Self>, engine: &Engine, event: Event<'_, Handles>) -> Effects {
        self.with(engine, |machine, step, spare| machine.handle(step, spare, event))
    }

    fn with(
        self: &Arc<Self>,
        engine: &Engine,
        work: impl FnOnce(&mut Machine, &mut Step<'_, Handles>, &mut Spare<Handles>),
    ) -> Effects {
        self.with_timer(engine, |machine, _, step, spare| work(machine, step, spare))
    }

    /// Works on the machine, and on when the timer queue will look at it.
    fn with_timer(
        self: &Arc<Self>,
        engine: &Engine,
        work: impl FnOnce(&mut Machine, &mut Option<Time>, &mut Step<'_, Handles>, &mut Spare<Handles>),
    ) -> Effects {
        let mut state = locked(&self.state);
        let State { machine, due, alive } = &mut *state;
        let mut effects = Effects::at(clock::now());
        let mut memory = borrow(&MEMORY).unwrap_or_default();
        let Memory { scratch, spare } = &mut *memory;
        let mut surroundings = Surroundings { engine, entry: self };
        let mut step = Step::new(&mut effects.machine, &mut surroundings, scratch);
        if let Err(panicked) = caught(|| work(machine, due, &mut step, spare)) {
            machine.give_up(&mut step, panicked.said());
            *due = None;
        }
        let (at, granted) = (effects.machine.at, effects.machine.grants());
        if !granted {
            machine.rest(at, scratch, spare);
        }
        give_back(&MEMORY, memory);
        // Unless the timer queue will look at it early enough anyway.
        effects.due = machine.next_look(at).filter(|next| due.is_none_or(|due| *next < due));
        *due = effects.due.or(*due);
        let needed = machine.is_at_store();
        if needed != alive.is_some() {
            *alive = needed.then(|| self.clone());
        }
        engine.counters.count(&effects.machine.notices);
        drop(state);
        effects.machine.notices.retain(notice::is_wanted);
        if granted {
            self.was_granted(at);
        }
        effects
    }

    /// This thread was granted it at `now`, and has rest what it was granted long before.
    fn was_granted(self: &Arc<Self>, now: Time) {
        let before = GRANTED.try_with(|granted| granted.borrow_mut().add(self, fork::image()));
        if let Ok(Some(entry)) = before {
            let mut memory = borrow(&MEMORY).unwrap_or_default();
            let Memory { scratch, spare } = &mut *memory;
            locked(&entry.state).machine.rest(now, scratch, spare);
            give_back(&MEMORY, memory);
        }
    }

    /// A step that panics.
    #[cfg(test)]
    pub(crate) fn breaks(self: &Arc<Self>, engine: &Engine) -> Effects {
        self.with(engine, |_, _, _| panic!("a defect"))
    }
}

impl Keyed for Entry {
    fn key(&self) -> &str {
        &self.key
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({:?})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectOptions;
    use crate::stores;
    use crate::uri::Uri;

    /// What it takes beside this: the hold, key and name, the protocol, its place in the timer queue and among the
    /// client's entries, and the guard.
    #[test]
    fn a_lock_that_is_held_takes_little_memory() {
        let (entry, hold) = (size_of::<Entry>(), size_of::<Hold>());
        assert!(entry <= 264 && hold <= 72, "an entry has {entry} bytes, a hold {hold}");
    }

    #[test]
    fn what_was_granted_long_before_rests_and_nothing_of_another_process() {
        let store = stores::open(&mut Uri::parse("memory://granted", ConnectOptions::default()).unwrap()).unwrap();
        let entry = |n: usize| Arc::new(Entry::new("x".into(), format!("x{n}").into(), store.layouts()[0].clone()));
        let entries: Vec<_> = (0..2 * Granted::MOST).map(entry).collect();
        let mut granted = Granted::NOTHING;
        for round in 0..3 {
            for entry in &entries[..Granted::MOST] {
                assert!(granted.add(entry, 0).is_none(), "again and again the same few, round {round}");
            }
        }
        for (entry, before) in entries[Granted::MOST..].iter().zip(&entries) {
            assert!(granted.add(entry, 0).is_some_and(|rests| Arc::ptr_eq(&rests, before)));
        }
        assert!(entries[..Granted::MOST].iter().all(|entry| granted.add(entry, 1).is_none()));
    }
}
