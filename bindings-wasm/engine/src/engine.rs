//! One client: its locks, what it says to its server and hears of it, and what is due when.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::error::{Error, Kind, Result};
use lockwright_machines::lease::Card;
use lockwright_machines::machine::{
    self, Effects, Environment, Event, LockMachine, Notice, Outgoing, Scratch, Settled, Step, Turn, ahead_of_each,
};
use lockwright_machines::protocol::{AttemptId, Channel, InboxId, Layout, Protocol};
use lockwright_machines::queue::TaskId;
use lockwright_machines::session::{Answer, Inbox as State};
use lockwright_machines::time::Time;

use crate::guard::Recall;
use crate::hold::Hold;
use crate::inquiries::Inquiries;
use crate::places::Places;
use crate::settings::Settings;
use crate::several::Acquiring;
use crate::store::{Answered, Done, Job, News, Store};

/// Whom a result is for; nobody's is 0.
pub type Ticket = u64;

/// Gives 128 random bits, fit for secrets; none where the host has none to give.
pub type Random = Box<dyn FnMut() -> Option<u128>>;

/// What the engine knows waiting tasks and holds by.
#[derive(Debug)]
pub(crate) enum Handles {}

impl machine::Handles for Handles {
    type Waiter = Ticket;
    type Hold = Hold;
}

/// What a lock of a client is: where it lies, and how.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) layout: Arc<dyn Layout>,
    pub(crate) name: Arc<str>,
    pub(crate) key: Arc<str>,
}

struct Entry {
    spot: Rc<Spot>,
    machine: LockMachine<Handles>,
    due: Option<Time>,
    /// Whoever has a copy may have something to ask of it yet.
    used: Rc<()>,
}

/// What the machines ask of their client in the middle of a step.
struct Common<S> {
    store: S,
    random: Random,
    store_timeout: Duration,
    inbox_id: Option<InboxId>,
    state: State,
    /// Until when the client's session at the server lives.
    alive_until: Time,
    places: Places,
    next_slot: u64,
}

impl<S> Common<S> {
    fn mint(&mut self) -> Result<AttemptId> {
        let message = "the host gives no randomness, without which no attempt has a name of its own";
        (self.random)().map(AttemptId).ok_or_else(|| Error::new(Kind::Internal, "acquire", message))
    }

    fn inbox_id(&mut self) -> Result<InboxId> {
        if let Some(known) = self.inbox_id {
            return Ok(known);
        }
        let drawn = InboxId(self.mint()?.0 as u64);
        Ok(*self.inbox_id.insert(drawn))
    }
}

struct Surroundings<'a, S> {
    common: &'a mut Common<S>,
    spot: &'a Spot,
    lock: u64,
}

impl<S: Store> Environment for Surroundings<'_, S> {
    fn name(&self) -> &Arc<str> {
        &self.spot.name
    }

    fn protocol(&self) -> Box<dyn Protocol> {
        self.spot.layout.protocol(self.spot.key.clone())
    }

    fn store_timeout(&self) -> Duration {
        self.common.store_timeout
    }

    fn mint(&mut self) -> Result<AttemptId> {
        self.common.mint()
    }

    fn inbox_id(&mut self) -> Result<InboxId> {
        self.common.inbox_id()
    }

    fn inbox(&self) -> State {
        self.common.state
    }

    fn alive_until(&self) -> Time {
        self.common.alive_until
    }

    fn next_slot(&mut self) -> u64 {
        self.common.next_slot += 1;
        self.common.next_slot
    }

    fn line_up(&mut self, slot: u64) -> (State, bool) {
        self.common.places.join(slot, self.lock, self.common.state)
    }

    // What is pushed is looked up by its key: a client in one thread has few locks of one name.
    fn await_grant(&mut self, _: AttemptId) {}

    fn await_no_grant(&mut self, _: AttemptId) {}

    fn subscribe(&mut self, slot: u64, channel: Channel<'_>) -> State {
        self.common.store.listen(slot, channel, &self.spot.key)
    }

    fn unsubscribe(&mut self, slot: u64) {
        self.common.store.leave(slot);
    }
}

/// See the [module](self).
pub struct Engine<S: Store> {
    layouts: Vec<Arc<dyn Layout>>,
    common: Common<S>,
    pub(crate) inquiries: Inquiries,
    pub(crate) several: HashMap<Ticket, Acquiring>,
    entries: HashMap<u64, Entry>,
    next_lock: u64,
    next_task: u64,
    next_ticket: Ticket,
    results: HashMap<Ticket, Settled<Hold>>,
    /// Nobody wants these results any more.
    unwanted: HashMap<Ticket, u64>,
    pub(crate) recalls: HashMap<Ticket, Recall>,
    scratch: Scratch<Handles>,
    actions: VecDeque<S::Action>,
    closed: bool,
}

impl<S: Store> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Engine").field(&self.settings().address).finish()
    }
}

impl<S: Store> Engine<S> {
    /// That of a client of this server. Nothing is dialled before something is asked.
    pub fn new(store: S, random: Random) -> Self {
        Engine {
            layouts: store.layouts(),
            common: Common {
                random,
                store_timeout: store.settings().store_timeout(),
                inbox_id: None,
                state: if store.pushes() { State::Closed } else { State::Unavailable },
                alive_until: Time::ZERO,
                places: Places::new(),
                next_slot: 0,
                store,
            },
            inquiries: Inquiries::default(),
            several: HashMap::new(),
            entries: HashMap::new(),
            next_lock: 0,
            next_task: 0,
            next_ticket: 0,
            results: HashMap::new(),
            unwanted: HashMap::new(),
            recalls: HashMap::new(),
            scratch: Scratch::default(),
            actions: VecDeque::new(),
            closed: false,
        }
    }

    /// What is known of the client.
    pub fn settings(&self) -> &Settings {
        self.common.store.settings()
    }

    /// Its server.
    pub fn store(&self) -> &S {
        &self.common.store
    }

    pub(crate) fn store_mut(&mut self) -> &mut S {
        &mut self.common.store
    }

    pub(crate) fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    pub(crate) fn store_is_deaf(&self) -> bool {
        self.common.state == State::Unavailable
    }

    pub(crate) fn mint(&mut self) -> Result<AttemptId> {
        self.common.mint()
    }

    pub(crate) fn card(&self, label: &str) -> Arc<str> {
        let Settings { options, place, .. } = self.settings();
        let (language, host, pid) = (options.language, place.0.to_string(), place.1);
        let card = Card { host, pid, language: language.into(), label: label.into() };
        card.encode().into()
    }

    /// # Errors
    /// `closed`.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.closed {
            true => Err(Error::new(Kind::Closed, "connect", "the client was closed; connect again")),
            false => Ok(()),
        }
    }

    /// A task that asks, numbered in the order in which they come.
    pub(crate) fn next_task(&mut self) -> TaskId {
        self.next_task += 1;
        TaskId(self.next_task)
    }

    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// The lock of this spot, and what keeps it while somebody may have to do with it; of what several may hold each
    /// acquisition has its own, and so it has of a gate, which nobody holds.
    pub(crate) fn entry(&mut self, spot: &Rc<Spot>) -> (u64, Rc<()>) {
        let way = |layout: &dyn Layout| (layout.name(), layout.format(), layout.share(), layout.has_many_holders());
        let is_it = |entry: &Entry| entry.spot.key == spot.key && way(&*entry.spot.layout) == way(&*spot.layout);
        if !spot.layout.has_many_holders()
            && let Some((lock, entry)) = self.entries.iter().find(|(_, entry)| is_it(entry))
        {
            return (*lock, entry.used.clone());
        }
        self.next_lock += 1;
        let machine = LockMachine::new(machine::Kind::of(&*spot.layout, &spot.key));
        let used = Rc::new(());
        self.entries.insert(self.next_lock, Entry { spot: spot.clone(), machine, due: None, used: used.clone() });
        (self.next_lock, used)
    }

    /// Tells the machine of `lock`.
    pub(crate) fn tell(&mut self, now: Time, lock: u64, event: Event<'_, Handles>) {
        self.work(now, lock, |machine, step| machine.handle(step, event));
    }

    fn work<T>(
        &mut self,
        now: Time,
        lock: u64,
        work: impl FnOnce(&mut LockMachine<Handles>, &mut Step<'_, Handles>) -> T,
    ) -> Option<T> {
        let entry = self.entries.get_mut(&lock)?;
        let mut effects = Effects::at(now);
        let mut env = Surroundings { common: &mut self.common, spot: &entry.spot, lock };
        let done = work(&mut entry.machine, &mut Step::new(&mut effects, &mut env, &mut self.scratch));
        entry.due = entry.machine.next_look(now);
        self.perform(lock, effects);
        Some(done)
    }

    fn perform(&mut self, lock: u64, effects: Effects<Handles>) {
        let now = effects.at;
        for Outgoing { slot, id, requests } in effects.sends {
            self.common.store.ask(Job::Contender { lock, slot, id }, requests);
        }
        for (_, at) in effects.learnt {
            self.common.store.learn(now, at);
        }
        for (hold, reason) in effects.lost {
            hold.lose(reason);
        }
        if effects.open_inbox
            && let Ok(inbox) = self.common.inbox_id()
        {
            self.common.store.open_inbox(inbox);
        }
        for notice in effects.notices {
            debug_assert!(!matches!(notice, Notice::Panicked { .. }), "a panic ends the instance");
        }
        for (ticket, result) in effects.settled {
            self.settle(now, ticket, result);
        }
        if !effects.let_through.is_empty() {
            effects.let_through.iter().for_each(|slot| self.common.places.went_through(*slot));
            self.let_in(now);
        }
    }

    pub(crate) fn settle(&mut self, now: Time, ticket: Ticket, result: Settled<Hold>) {
        let told = match self.recalls.remove(&ticket) {
            Some(recall) => self.recalled(now, recall, result),
            None => Some(result),
        };
        let Some(result) = told else { return };
        let Some(lock) = self.unwanted.remove(&ticket) else {
            if ticket > 0 {
                self.results.insert(ticket, result);
            }
            return;
        };
        if let Settled::Exported(secret) = result {
            self.tell(now, lock, Event::Retract { secret });
        }
    }

    /// The result for `ticket`, once it is there.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Settled<Hold>> {
        self.results.remove(&ticket)
    }

    pub(crate) fn result(&self, ticket: Ticket) -> Option<&Settled<Hold>> {
        self.results.get(&ticket)
    }

    /// Whether the result for `ticket` is there.
    pub fn is_settled(&self, ticket: Ticket) -> bool {
        self.results.contains_key(&ticket)
            || self.inquiries.is_settled(ticket)
            || self.several.get(&ticket).is_some_and(Acquiring::is_settled)
    }

    /// Nobody wants to know what was asked any more.
    pub fn forget_question(&mut self, ticket: Ticket) {
        self.inquiries.forget(ticket);
    }

    /// Nobody wants the result for `ticket` any more, of `task` where it is an acquisition.
    pub(crate) fn forget(&mut self, now: Time, lock: u64, ticket: Ticket, task: Option<TaskId>) {
        let before = self.take(ticket);
        let granted = match before {
            Some(Settled::Granted { hold, .. }) => Some(hold),
            Some(Settled::Exported(secret)) => return self.tell(now, lock, Event::Retract { secret }),
            Some(_) => return,
            None if task.is_none() => {
                self.unwanted.insert(ticket, lock);
                None
            }
            None => None,
        };
        if let Some(task) = task {
            self.tell(now, lock, Event::Cancel { task, granted });
        }
    }

    /// Lets in the first of those who stand behind, unless some are under way.
    fn let_in(&mut self, now: Time) {
        while self.common.places.begin(self.common.state) {
            while let Some((slot, lock, first)) = self.common.places.next() {
                let turn =
                    lock.and_then(|lock| self.work(now, lock, |machine, step| machine.let_in(step, slot, first)));
                self.common.places.taken(slot, turn.unwrap_or(Turn::Over));
            }
            self.common.places.end();
        }
    }

    /// The next that is to be done outside.
    pub fn next_action(&mut self) -> Option<S::Action> {
        self.actions.pop_front()
    }

    /// Something was `told` to the store from outside.
    pub(crate) fn told(&mut self, now: Time, told: impl FnOnce(&mut S, &mut VecDeque<S::Action>)) {
        told(&mut self.common.store, &mut self.actions);
        self.go_on(now);
    }

    /// Time passed: does what is due. What came on the lines until then is to be handed on before, else it counts as
    /// too late.
    pub fn look(&mut self, now: Time) {
        let due = |entry: &Entry| entry.due.is_some_and(|due| due <= now);
        let locks: Vec<u64> = self.entries.iter().filter(|(_, entry)| due(entry)).map(|(lock, _)| *lock).collect();
        for lock in locks {
            self.tell(now, lock, Event::Tick);
        }
        self.look_at_inquiries(now);
        self.common.store.look(now, &mut self.actions);
        self.go_on(now);
    }

    /// When to [look](Self::look) again at the latest.
    pub fn next_look(&self) -> Option<Time> {
        let entries = self.entries.values().filter_map(|entry| entry.due);
        let others = [self.common.store.due(), self.inquiries.due()];
        entries.chain(others.into_iter().flatten()).min()
    }

    /// Hands on what was answered and heard, until there is nothing more to say.
    pub(crate) fn go_on(&mut self, now: Time) {
        loop {
            if let Some(news) = self.common.store.next_news(now) {
                self.hear(now, news);
            } else if !self.advance_several(now) {
                break;
            }
        }
        self.common.store.go(now, &mut self.actions);
        self.entries.retain(|_, entry| Rc::strong_count(&entry.used) > 1 || !entry.machine.is_idle());
        if self.closed && self.is_over() {
            self.common.store.part(now, &mut self.actions);
        }
    }

    fn answered(&mut self, now: Time, Done { job, sent, answered }: Done) {
        let (lock, slot, id) = match job {
            Job::Contender { lock, slot, id } => (lock, slot, id),
            Job::Inquiry(ticket) => return self.inquiry_answered(now, ticket, sent, answered),
        };
        let answer = match &answered {
            Answered::Replies(replies) => Answer::Replies(replies),
            Answered::NotSent(error) => Answer::NotSent(error.clone()),
            Answered::Unknown { error, void_after } => {
                Answer::Unknown { error: error.clone(), void_after: *void_after }
            }
        };
        self.tell(now, lock, Event::Answered { slot, id, sent, answer });
    }

    fn hear(&mut self, now: Time, news: News) {
        match news {
            News::Done(done) => self.answered(now, done),
            News::Verify => self.every_entry(now, || Event::Verify),
            News::Inbox(state) => {
                self.common.state = state;
                self.every_entry(now, || Event::Inbox(state));
                self.common.places.inbox_changed(state);
                self.let_in(now);
            }
            News::Channel { key, channel, state } => {
                self.entries_of(now, &key, || Event::Channel { channel: &channel, state });
            }
            News::Pushed(key, event) => self.entries_of(now, &key, || Event::Pushed(&event)),
            News::Alive(until) => {
                self.common.alive_until = until;
                self.every_entry(now, || Event::Alive(until));
            }
            News::Over => {
                self.common.alive_until = Time::ZERO;
                self.every_entry(now, || Event::Over);
            }
        }
    }

    pub(crate) fn entries_of<'a>(&mut self, now: Time, key: &str, event: impl Fn() -> Event<'a, Handles>) {
        let of_key = self.entries.iter().filter(|(_, entry)| *entry.spot.key == *key);
        let locks: Vec<u64> = of_key.map(|(lock, _)| *lock).collect();
        locks.into_iter().for_each(|lock| self.tell(now, lock, event()));
    }

    /// How many are ahead of each that waits here for what lies under `key`, in the order in which they came.
    pub(crate) fn places(&self, key: &str) -> Vec<u32> {
        let of_key = self.entries.values().filter(|entry| *entry.spot.key == *key && entry.spot.layout.is_held());
        ahead_of_each(of_key.flat_map(|entry| entry.machine.places()))
    }

    fn every_entry<'a>(&mut self, now: Time, event: impl Fn() -> Event<'a, Handles>) {
        let locks: Vec<u64> = self.entries.keys().copied().collect();
        locks.into_iter().for_each(|lock| self.tell(now, lock, event()));
    }

    /// Gives back all that is held and refuses whoever waits; [`is_over`](Self::is_over) says when that is done.
    pub fn close(&mut self, now: Time) {
        if !std::mem::replace(&mut self.closed, true) {
            self.inquiries.close();
            self.every_entry(now, || Event::Close);
            self.go_on(now);
        }
    }

    /// Whether the server has answered all that it was asked, or the client is closed, which has waited for that.
    pub fn is_quiet(&self) -> bool {
        self.closed || self.common.store.is_quiet()
    }

    /// Whether nothing is asked of the server, and nothing left there.
    pub fn is_over(&self) -> bool {
        self.common.store.is_quiet() && !self.entries.values().any(|entry| entry.machine.is_at_store())
    }

    /// Ends all that is open: what is left at the server ends with its lease.
    pub fn hang_up(&mut self) {
        self.common.store.hang_up(&mut self.actions);
    }
}
