//! One process' part in one lock: the shipped machine, and a client round it that mints attempts and listens.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockwright_machines::error::Result;
use lockwright_machines::lease::LossReason;
use lockwright_machines::machine::{
    self, Demand, Environment, Event, Held, Kept, Kind, LockMachine, Scratch, Spare, Step,
};
use lockwright_machines::protocol::{AttemptId, Channel, InboxId, Protocol, StoreEvent, Traits};
use lockwright_machines::queue::{Ask, HoldId, OwnerId, TaskId};
use lockwright_machines::relative::Relative;
use lockwright_machines::session::{Inbox, RequestId};
use lockwright_machines::time::Time;
use lockwright_machines::token::Token;

/// Whom an answer is for: what was asked of a machine, and the task that asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Call {
    #[default]
    Nobodys,
    Acquire(TaskId),
    Release(TaskId),
    Extend(TaskId),
    Change(TaskId),
}

thread_local! {
    static MEMORY: RefCell<(Scratch<Handles>, Spare<Handles>)> = RefCell::default();
}

/// What tests know their own by.
#[derive(Debug)]
pub enum Handles {}

impl machine::Handles for Handles {
    type Waiter = Call;
    type Hold = Holding;
}

/// A hold, as its task sees it.
#[derive(Clone, Debug)]
pub struct Holding {
    held: Held,
    shown: Option<Token>,
    abandoned: bool,
}

impl machine::Hold for Holding {
    fn new(held: Held) -> Self {
        Holding { held, shown: held.token, abandoned: false }
    }

    fn id(&self) -> HoldId {
        self.held.id
    }

    fn by(&self) -> Option<OwnerId> {
        self.held.by
    }

    fn shown(&self) -> Option<Token> {
        self.shown
    }

    fn show(&mut self, token: u64) {
        self.shown = Some(Token::new(token));
    }

    fn since(&self) -> Time {
        self.held.since
    }

    fn prolong(&mut self, valid_until: Time, _: &LossReason) {
        self.held.valid_until = self.held.valid_until.max(valid_until);
    }

    fn abandon(&mut self, abandoned: bool) {
        self.abandoned = abandoned;
    }

    fn reason(&self, reason: LossReason) -> LossReason {
        if self.abandoned { LossReason::Abandoned } else { reason }
    }
}

pub type Effects = machine::Effects<Handles>;
pub type Settled = machine::Settled<Holding>;

/// How a process takes part in one lock.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The number of the process.
    pub id: u8,
    /// Makes its jitter differ from that of others.
    pub salt: u64,
    /// Speaks its layout.
    pub speaks: fn() -> Box<dyn Protocol>,
    pub store_timeout: Duration,
    /// Several may hold at once.
    pub shares: bool,
}

/// What the machine is told of the client.
#[derive(Clone, Debug)]
struct Client {
    part: Part,
    minted: u32,
    slots: u64,
    inbox: Inbox,
    alive_until: Time,
}

impl Environment for Client {
    fn name(&self) -> &Arc<str> {
        static NAME: LazyLock<Arc<str>> = LazyLock::new(|| "L".into());
        &NAME
    }

    fn protocol(&self) -> Box<dyn Protocol> {
        (self.part.speaks)()
    }

    fn store_timeout(&self) -> Duration {
        self.part.store_timeout
    }

    fn mint(&mut self) -> Result<AttemptId> {
        self.minted += 1;
        let number = self.part.salt.wrapping_add(self.minted.into());
        Ok(AttemptId(u128::from(self.part.id) << 64 | u128::from(number)))
    }

    fn inbox_id(&mut self) -> Result<InboxId> {
        Ok(inbox_of(self.part.id.into()))
    }

    fn inbox(&self) -> Inbox {
        self.inbox
    }

    fn alive_until(&self) -> Time {
        self.alive_until
    }

    fn next_slot(&mut self) -> u64 {
        self.slots += 1;
        self.slots
    }

    fn line_up(&mut self, _: u64) -> (Inbox, bool) {
        (self.inbox, false)
    }

    fn await_grant(&mut self, _: AttemptId) {}

    fn await_no_grant(&mut self, _: AttemptId) {}

    fn subscribe(&mut self, _: u64, _: Channel<'_>) -> Inbox {
        self.inbox
    }

    fn unsubscribe(&mut self, _: u64) {}
}

/// See the [module](self).
pub struct Process {
    client: Client,
    kind: Kind,
    /// Between two steps it does not rest.
    machine: Kept<Handles>,
}

impl Clone for Process {
    fn clone(&self) -> Self {
        let machine = Kept::of(self.kind, Box::new(self.machine().duplicate()));
        Process { client: self.client.clone(), kind: self.kind, machine }
    }
}

/// The number of the process that minted `attempt`.
pub fn process_of(attempt: AttemptId) -> usize {
    usize::from((attempt.0 >> 64) as u8)
}

/// The address of a process' inbox.
pub fn inbox_of(process: usize) -> InboxId {
    InboxId(process as u64)
}

impl Process {
    /// A process with nothing going on.
    pub fn new(part: Part, inbox: Inbox) -> Self {
        let Traits { block, push, bound, .. } = (part.speaks)().traits();
        let block = u32::try_from(block).expect("blocks of tests are small");
        let kind = Kind { block, push, has_many_holders: part.shares, is_of_holders: !part.shares, bound };
        Process {
            client: Client { part, minted: 0, slots: 0, inbox, alive_until: Time::ZERO },
            kind,
            machine: Kept::of(kind, Box::new(LockMachine::new(kind))),
        }
    }

    fn machine(&self) -> &LockMachine<Handles> {
        self.machine.machine().expect("it was woken after the last step")
    }

    /// How many attempts it minted; the last one is called so.
    pub fn minted(&self) -> u32 {
        self.client.minted
    }

    pub fn mint(&mut self) -> AttemptId {
        self.client.mint().expect("tests have randomness")
    }

    /// Takes one event; what follows is added to `effects`. Whatever may rest before or after it does, and goes on.
    pub fn handle(&mut self, event: Event<'_, Handles>, effects: &mut Effects) {
        self.rests_on(event, effects);
    }

    /// The same, and whether the event did not wake it.
    pub fn rests_on(&mut self, event: Event<'_, Handles>, effects: &mut Effects) -> bool {
        let (now, Process { client, machine, .. }) = (effects.at, self);
        MEMORY.with_borrow_mut(|(scratch, spare)| {
            machine.rest(now, scratch, spare);
            machine.handle(&mut Step::new(effects, client, scratch), spare, event);
            let rests_on = machine.machine().is_none();
            machine.rest(now, scratch, spare);
            machine.wake(&mut Step::new(effects, client, scratch), spare);
            rests_on
        })
    }

    /// Its last step panicked.
    pub fn give_up(&mut self, effects: &mut Effects) {
        let Process { client, machine, .. } = self;
        MEMORY.with_borrow_mut(|(scratch, _)| {
            machine.give_up(&mut Step::new(effects, client, scratch), "a defect".to_owned());
        });
    }

    /// A task wants the lock, or what `secret` holds of it.
    pub fn acquire(&mut self, ask: Ask, secret: Option<AttemptId>, effects: &mut Effects) {
        let card = "".into();
        let by = ask.owner;
        let demand = Demand {
            ask,
            card: &card,
            by,
            holds_nothing: false,
            lenient: false,
            secret,
            insists: true,
            hurries: false,
        };
        self.handle(Event::Acquire { demand, waiter: Call::Acquire(ask.task) }, effects);
    }

    /// The connection on which it hears what is pushed changed.
    pub fn connected(&mut self, inbox: Inbox, effects: &mut Effects) {
        self.client.inbox = inbox;
        self.handle(Event::Inbox(inbox), effects);
        for channel in self.machine().channels().collect::<Vec<_>>() {
            self.handle(Event::Channel { channel: &channel, state: inbox }, effects);
        }
    }

    /// Its session at the store lives until then, or is over.
    pub fn lives(&mut self, until: Option<Time>, effects: &mut Effects) {
        self.client.alive_until = until.unwrap_or(Time::ZERO);
        self.handle(until.map_or(Event::Over, Event::Alive), effects);
    }

    /// Whether the store sends it `event`: what is told on a channel only reaches who listens there.
    pub fn hears(&self, event: &StoreEvent) -> bool {
        match event {
            StoreEvent::Changed { path } => self.machine().channels().any(|channel| channel == *path),
            _ => true,
        }
    }

    /// When to tick at the latest.
    pub fn due(&self) -> Option<Time> {
        self.machine().poll_timeout()
    }

    /// Until when whoever has this hold may believe so, if it is in force.
    pub fn valid_until(&self, hold: HoldId) -> Option<Time> {
        self.machine().valid_until(hold)
    }

    /// Until when the hold itself was told that it lasts.
    pub fn told_until(&self, hold: HoldId) -> Option<Time> {
        Some(self.machine().hold_of(hold)?.held.valid_until)
    }

    /// The token that the hold shows.
    pub fn shown(&self, hold: HoldId) -> Option<u64> {
        Some(self.machine().hold_of(hold)?.shown?.n)
    }

    /// Every attempt whose session believes to hold, and until when.
    pub fn beliefs(&self) -> impl Iterator<Item = (AttemptId, Time)> {
        self.machine().beliefs()
    }

    /// Whether nobody here holds, waits or contends, and nothing of it is left at the store as far as it knows.
    pub fn is_idle(&self) -> bool {
        self.machine().is_idle()
    }

    /// The state in the names of `view`; equal for processes that will behave alike.
    pub fn fingerprint(&self, view: &impl Relative, state: &mut impl Hasher) {
        self.client.inbox.hash(state);
        self.machine().fingerprint(view, state);
    }

    /// Whether an answer to `id` would be taken.
    pub fn awaits(&self, slot: u64, id: RequestId) -> bool {
        self.machine().awaits(slot, id)
    }

    /// Where the contender stands among those there are that would take an answer to `id`.
    pub fn awaited_by(&self, slot: u64, id: RequestId) -> Option<usize> {
        self.machine().place_of(slot).filter(|_| self.awaits(slot, id))
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.machine().fmt(f)
    }
}
