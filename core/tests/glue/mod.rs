//! One process' part in one lock, without I/O: its queue, its sessions, and the talk between the two.
//!
//! The explorer and the simulation run it in place of the driver. Whatever would leave the process comes out as [`Out`].

use std::hash::{Hash, Hasher};
use std::time::Duration;

use lockwright::lease::{LossReason, ReleaseOutcome};
use lockwright::protocol::{AttemptId, InboxId, Protocol, Requests, StoreEvent, Terms};
use lockwright::queue::{self, Ask, ContenderId, Queue, Refusal, TaskId};
use lockwright::relative::Relative;
use lockwright::session::{self, Answer, Inbox, RequestId, Service, Session, claim};
use lockwright::time::{StoreTime, Time};

/// What comes to a process.
pub enum Input<'a> {
    Acquire(Ask),
    Resume { ask: Ask, secret: AttemptId },
    Cancel(TaskId),
    Release { token: u64 },
    Export { token: u64, secret: AttemptId, ttl: Duration },
    Extend { token: u64, ttl: Duration },
    Change { token: u64, units: u32 },
    Reply { slot: usize, id: RequestId, sent: Time, answer: Answer<'a> },
    Push(&'a StoreEvent),
    Inbox(Inbox),
    Verify,
    Tick,
}

/// What leaves it.
#[derive(Debug)]
pub enum Out {
    Send { slot: usize, id: RequestId, requests: Requests },
    OpenInbox,
    Learn { sent: Time, at: StoreTime },
    Granted { task: TaskId, token: u64, depth: u32 },
    Refused { task: TaskId, why: Refusal },
    Released { token: u64, outcome: ReleaseOutcome },
    Lost { token: u64, reason: Option<LossReason> },
    Extended { done: bool },
    Changed { token: Option<u64> },
    Parted { token: Option<u64> },
}

/// One session, and for whom it stands.
#[derive(Debug)]
struct Slot {
    contender: Option<ContenderId>,
    session: Session,
    idle: bool,
    /// The token that the release under way gives back.
    releasing: Option<u64>,
}

#[derive(Debug)]
pub struct Process {
    id: u8,
    salt: u64,
    machine: fn() -> Box<dyn Protocol>,
    minted: u32,
    store_timeout: Duration,
    inbox: Inbox,
    queue: Queue,
    slots: Vec<Slot>,
}

impl Clone for Process {
    fn clone(&self) -> Self {
        let slots = self.slots.iter().map(|slot| Slot { session: slot.session.duplicate(), ..*slot }).collect();
        Process { queue: self.queue.clone(), slots, ..*self }
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
    /// Process `id`, with nothing going on. `salt` makes its jitter differ, `machine` speaks its layout; `block` as in
    /// [`Queue::new`].
    pub fn new(
        id: u8,
        salt: u64,
        machine: fn() -> Box<dyn Protocol>,
        store_timeout: Duration,
        block: u64,
        inbox: Inbox,
    ) -> Self {
        Process { id, salt, machine, minted: 0, store_timeout, inbox, queue: Queue::new(block), slots: Vec::new() }
    }

    /// How many attempts it minted; the last one is called so.
    pub fn minted(&self) -> u32 {
        self.minted
    }

    /// Takes one input and lets queue and sessions talk until both are silent.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Vec<Out>) {
        match input {
            Input::Acquire(ask) => self.queue.handle(now, queue::Event::Acquire(ask)),
            Input::Resume { ask, secret } => self.queue.handle(now, queue::Event::Resume { ask, secret }),
            Input::Cancel(task) => self.queue.handle(now, queue::Event::Cancel(task)),
            Input::Release { token } => self.release(now, token),
            Input::Export { token, secret, ttl } => {
                self.tick(now);
                self.queue.handle(now, queue::Event::Export { token, secret, ttl });
            }
            Input::Extend { token, ttl } => match self.slot_of_token(token) {
                Some(slot) => self.slots[slot].session.handle(now, session::Event::Extend(ttl)),
                None => out.push(Out::Extended { done: false }),
            },
            Input::Change { token, units } => match self.slot_of_token(token) {
                Some(slot) => self.slots[slot].session.handle(now, session::Event::Change(units)),
                None => out.push(Out::Changed { token: None }),
            },
            Input::Reply { slot, id, sent, answer } => {
                self.slots[slot].session.handle(now, session::Event::Reply { id, sent, answer });
            }
            Input::Push(event) => self.every_session(|session| session.handle(now, session::Event::Push(event))),
            Input::Inbox(inbox) => {
                self.inbox = inbox;
                self.every_session(|session| session.handle(now, session::Event::Inbox(inbox)));
            }
            Input::Verify => self.every_session(|session| session.handle(now, session::Event::Verify)),
            Input::Tick => self.tick(now),
        }
        self.pump(now, out);
    }

    /// When to tick at the latest.
    pub fn due(&self) -> Option<Time> {
        let sessions = self.slots.iter().filter(|slot| !slot.idle).filter_map(|slot| slot.session.poll_timeout());
        sessions.chain(self.queue.poll_timeout()).min()
    }

    /// Until when whoever holds under `token` may believe so, if that hold is in force.
    pub fn valid_until(&self, token: u64) -> Option<Time> {
        self.slots[self.slot_of_token(token)?].session.valid_until()
    }

    /// Every attempt whose session believes to hold, and until when.
    pub fn beliefs(&self) -> impl Iterator<Item = (AttemptId, Time)> {
        let of = |slot: &Slot| slot.session.valid_until().map(|until| (slot.session.attempt(), until));
        self.slots.iter().filter_map(of)
    }

    /// Whether nobody here holds, waits or contends, and nothing of it is left at the store as far as it knows.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.slots.iter().all(|slot| slot.idle)
    }

    /// The state in the names of `view`; equal for processes that will behave alike.
    pub fn fingerprint(&self, view: &impl Relative, state: &mut impl Hasher) {
        self.inbox.hash(state);
        self.queue.fingerprint(view, state);
        for slot in &self.slots {
            (slot.contender, slot.idle, slot.releasing.map(|token| view.token(token))).hash(state);
            slot.session.fingerprint(view, state);
        }
    }

    /// Whether an answer to `id` would be taken.
    pub fn awaits(&self, slot: usize, id: RequestId) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.session.awaits(id))
    }
    pub fn describe(&self) -> String {
        let slots = self.slots.iter().filter(|slot| !slot.idle).map(|slot| {
            let gone = if slot.contender.is_none() { " (not wanted any more)" } else { "" };
            format!("{:?}{gone}", slot.session)
        });
        slots.collect::<Vec<_>>().join("; ")
    }

    pub fn mint(&mut self) -> AttemptId {
        self.minted += 1;
        AttemptId(u128::from(self.id) << 64 | u128::from(self.salt.wrapping_add(self.minted.into())))
    }

    fn terms(&mut self, service: Service) -> Terms {
        Terms {
            name: "L".into(),
            attempt: self.mint(),
            inbox: inbox_of(self.id.into()),
            ttl: service.ttl,
            claim: claim(service.ttl),
            card: "".into(),
            fair: false,
        }
    }

    fn pump(&mut self, now: Time, out: &mut Vec<Out>) {
        loop {
            if let Some(action) = self.queue.poll_action() {
                self.queue_wants(now, action, out);
            } else if let Some((slot, action)) = self.session_action() {
                self.session_wants(now, slot, action, out);
            } else {
                return;
            }
        }
    }

    fn session_action(&mut self) -> Option<(usize, session::Action)> {
        self.slots.iter_mut().enumerate().find_map(|(i, slot)| Some((i, slot.session.poll_action()?)))
    }

    fn queue_wants(&mut self, now: Time, action: queue::Action, out: &mut Vec<Out>) {
        match action {
            queue::Action::Contend { contender, wait, fair, service } => {
                let (terms, inbox) = (Terms { fair, ..self.terms(service) }, self.inbox);
                let slot = self.idle_slot();
                slot.contender = Some(contender);
                slot.session.handle(now, session::Event::Acquire { terms, wait, service, inbox });
            }
            queue::Action::Resume { contender, secret, service } => {
                let terms = self.terms(service);
                let secret = Terms::of_secret("L".into(), secret, service.ttl, "".into());
                let slot = self.idle_slot();
                slot.contender = Some(contender);
                slot.session.handle(now, session::Event::Resume { terms, secret, service });
            }
            queue::Action::Serve { contender, service } => self.tell(now, contender, session::Event::Serve(service)),
            queue::Action::Yield { contender, used, service } => {
                let attempt = self.mint();
                self.release_goes_to(contender, used);
                self.tell(now, contender, session::Event::Yield { attempt, used, service });
            }
            queue::Action::GiveBack { contender, used } => {
                self.release_goes_to(contender, used);
                self.tell(now, contender, session::Event::Release { used });
                self.detach(contender);
            }
            queue::Action::Export { contender, used, secret, ttl } => {
                self.release_goes_to(contender, used);
                let secret = Terms::of_secret("L".into(), secret, ttl, "".into());
                self.tell(now, contender, session::Event::Export { secret, used });
                self.detach(contender);
            }
            queue::Action::RunOut { contender, .. } => {
                let slot = self.slots.iter_mut().find(|slot| slot.contender == Some(contender));
                if let Some(Slot { session, .. }) = slot {
                    let left = session.valid_until().map_or(Duration::ZERO, |until| until.since(now));
                    session.handle(now, session::Event::Serve(Service::that_runs_out(left)));
                }
            }
            queue::Action::Withdraw(contender) => {
                self.tell(now, contender, session::Event::Cancel);
                self.detach(contender);
            }
            queue::Action::Grant { task, token, depth, .. } => out.push(Out::Granted { task, token, depth }),
            queue::Action::Refuse { task, why } => out.push(Out::Refused { task, why }),
            queue::Action::Released { token, outcome } => out.push(Out::Released { token, outcome }),
            queue::Action::Lost { token } => out.push(Out::Lost { token, reason: None }),
        }
    }

    fn session_wants(&mut self, now: Time, slot: usize, action: session::Action, out: &mut Vec<Out>) {
        let contender = self.slots[slot].contender;
        match action {
            session::Action::Send { id, requests } => out.push(Out::Send { slot, id, requests }),
            session::Action::OpenInbox => out.push(Out::OpenInbox),
            session::Action::Learn { sent, at } => out.push(Out::Learn { sent, at }),
            session::Action::Granted { first, last } => match contender {
                Some(contender) => self.queue.handle(now, queue::Event::Granted { contender, first, last }),
                None => self.slots[slot].session.handle(now, session::Event::Release { used: first }),
            },
            session::Action::Refused => {}
            session::Action::Failed(error) => {
                if let Some(contender) = self.slots[slot].contender.take() {
                    self.queue.handle(now, queue::Event::Ended { contender, failure: Some(error) });
                }
            }
            session::Action::Lost(reason) => {
                if let Some(contender) = self.slots[slot].contender.take() {
                    if let Some(token) = self.queue.held_token().filter(|t| self.queue.holder(*t) == Some(contender)) {
                        out.push(Out::Lost { token, reason: Some(reason) });
                    }
                    self.queue.handle(now, queue::Event::Lost(contender));
                }
            }
            session::Action::Extended(done) => out.push(Out::Extended { done }),
            session::Action::Changed(token) => out.push(Out::Changed { token }),
            session::Action::Parted(token) => out.push(Out::Parted { token }),
            session::Action::Released(outcome) => {
                if let Some(token) = self.slots[slot].releasing.take() {
                    out.push(Out::Released { token, outcome });
                }
            }
            session::Action::Ended => {
                if let Some(contender) = self.slots[slot].contender.take() {
                    self.queue.handle(now, queue::Event::Ended { contender, failure: None });
                }
                self.slots[slot].idle = true;
            }
        }
    }

    fn idle_slot(&mut self) -> &mut Slot {
        let at = self.slots.iter().position(|slot| slot.idle).unwrap_or_else(|| {
            let session = Session::new((self.machine)(), self.store_timeout);
            self.slots.push(Slot { contender: None, session, idle: true, releasing: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        slot.idle = false;
        slot.releasing = None;
        slot
    }

    fn slot_of(&self, contender: ContenderId) -> Option<usize> {
        self.slots.iter().position(|slot| slot.contender == Some(contender))
    }

    fn slot_of_token(&self, token: u64) -> Option<usize> {
        self.slot_of(self.queue.holder(token)?)
    }

    fn tell(&mut self, now: Time, contender: ContenderId, event: session::Event<'_>) {
        if let Some(slot) = self.slot_of(contender) {
            self.slots[slot].session.handle(now, event);
        }
    }

    fn detach(&mut self, contender: ContenderId) {
        if let Some(slot) = self.slot_of(contender) {
            self.slots[slot].contender = None;
        }
    }

    fn release(&mut self, now: Time, token: u64) {
        let left = self.slot_of_token(token).and_then(|slot| {
            let session = &mut self.slots[slot].session;
            let left = session.valid_until()?.since(now);
            session.is_certain(now).then_some(left)
        });
        // The deadline is the truth, however late the timer is.
        self.tick(now);
        self.queue.handle(now, queue::Event::Release { token, left });
    }

    fn release_goes_to(&mut self, contender: ContenderId, token: u64) {
        if let Some(slot) = self.slot_of(contender) {
            self.slots[slot].releasing = Some(token);
        }
    }

    fn tick(&mut self, now: Time) {
        self.queue.handle(now, queue::Event::Tick);
        for slot in self.slots.iter_mut().filter(|slot| !slot.idle) {
            if slot.session.poll_timeout().is_some_and(|at| at <= now) {
                slot.session.handle(now, session::Event::Tick);
            }
        }
    }

    fn every_session(&mut self, mut each: impl FnMut(&mut Session)) {
        for slot in self.slots.iter_mut().filter(|slot| !slot.idle) {
            each(&mut slot.session);
        }
    }
}
