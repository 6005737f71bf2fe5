//! The life of one contender for one lock: asking, waiting, holding, renewing, giving back.
//!
//! Written once for every store and pure: time is handed in, bytes go out as [`Action`]s. It alone reasons about time.
//! Cancel and release are events in it, never a dropped future, so whatever was sent is finished or undone.
//!
//! ```text
//!   phase       event                            next        action                       remark
//!   ----------  -------------------------------  ----------  ---------------------------  ----------------------------------
//!   Idle        Acquire                          Asking      Send(acquire)
//!   Idle        Resume                           Asking      Send(acquire)                passes the lock on from the secret
//!   Idle        Resume: cannot be passed         Ended       Failed
//!   Asking      Reply: granted, in time          Held        Granted
//!   Asking      Reply: granted, is due           Held        Send(renew)                  with the grant
//!   Asking      Reply: granted, half over        Confirming  Send(renew)
//!   Asking      Reply: granted, over, or late    Asking      Send(acquire)                same attempt
//!   Asking      Reply: queued, held              Waiting     OpenInbox                    where the inbox is closed
//!   Asking      Reply: none, outcome unknown     Asking      -                            asks again by timer
//!   Asking      Reply: held, does not wait       Ended       Refused
//!   Asking      Reply: no holder, refused        Ended       Failed
//!   Asking      Reply: the same, asked before    Undoing     Refused, Failed, Send(undo)  what is not known is undone
//!   Asking      Push: granted, overtook          Held        Granted
//!   Asking      Push: granted, is due            Held        Send(renew)
//!   Asking      Push: granted, half over         Confirming  Send(renew)
//!   Asking      Push: granted, over, a second    Asking      Send(acquire)                once the one under way is answered
//!   Asking      Reply: not yet                   Asking      -                            asks again by timer, without a limit
//!   Asking      Tick: after a pause              Asking      Send(acquire)                same attempt
//!   Asking      Tick: store silent too long      Ended       Failed                       after store_timeout
//!   Asking      Tick: the same, asked before     Undoing     Failed, Send(undo)
//!   Asking      Cancel: nothing is at the store  Ended       -
//!   Asking      Cancel                           Undoing     Send(undo)
//!   Waiting     Push: granted, in time           Held        Granted
//!   Waiting     Push: granted, is due            Held        Send(renew)
//!   Waiting     Push: granted, half over         Confirming  Send(renew)
//!   Waiting     Push: granted, over, a second    Asking      Send(acquire)                only an answer is believed
//!   Waiting     Push: hint, places dropped       Asking      Send(acquire)                a claim that runs only moves the timer
//!   Waiting     Inbox: it is (re)subscribed      Asking      Send(acquire)
//!   Waiting     Tick: holder's end, a poll       Asking      Send(acquire)
//!   Waiting     Over                             Asking      Send(acquire)                its place ended with the session
//!   Waiting     Verify                           Asking      Send(acquire)
//!   Waiting     Push/Inbox/Tick/Verify           Undoing     Failed, Send(undo)           its place may be forgotten
//!   Waiting     Cancel: nothing is at the store  Ended       -
//!   Waiting     Cancel                           Undoing     Send(undo)
//!   Confirming  Reply: renewed                   Held        Granted
//!   Confirming  Reply: renewed, is due           Held        Send(renew)
//!   Confirming  Reply: gone, over                Asking      Send(acquire)
//!   Confirming  Push: broken                     Confirming  Send(renew)
//!   Confirming  Tick: the renewal is due         Confirming  Send(renew)
//!   Confirming  Tick: deadline                   Asking      Send(acquire)
//!   Confirming  Tick: deadline, forgotten        Undoing     Failed, Send(undo)
//!   Confirming  Cancel                           Undoing     Send(undo)
//!   Held        Reply: renewed, changed          Held        Extended, Changed
//!   Held        Reply: is due, broken            Held        Send(renew)                  what is said must be final
//!   Held        Reply: gone                      Ended       Lost
//!   Held        Reply: gone, asked before        Undoing     Lost, Send(undo)
//!   Held        Push: broken                     Held        Send(renew)                  its answer ends the hold
//!   Held        Tick: the renewal is due         Held        Send(renew)                  unless the hold is to run out
//!   Held        Tick: deadline                   Undoing     Lost, Send(undo)
//!   Held        Over                             Undoing     Lost, Send(undo)             the client's session ended
//!   Held        Verify                           Held        Send(renew)
//!   Held        Heed                             Held        Send(renew)                  which says whether it is asked back
//!   Held        Push: changed, and heeds         Held        Send(renew)
//!   Held        Reply: renewed, asked back       Held        Wanted
//!   Held        Serve                            Held        Send(renew)                  where its ttl is shorter
//!   Held        Extend                           Held        Send(renew)
//!   Held        Change                           Held        Send(renew)                  sent again until answered for good
//!   Held        Release                          Releasing   Send(release)
//!   Held        Export                           Releasing   Send(release)                passes the lock on to the secret
//!   Held        Yield: nothing in doubt          Asking      Send(acquire)                new attempt, gives the old one back
//!   Held        Yield: something in doubt        Releasing   Send(release)
//!   Held        Cancel                           Undoing     Send(undo)
//!   Releasing   Reply: released                  Ended       Released
//!   Releasing   Reply: asked before, refused     Undoing     Released, Send(undo)
//!   Releasing   Tick: after a pause              Releasing   Send(release)
//!   Releasing   Tick: store silent too long      Releasing   Released                     unknown; it is sent on
//!   Releasing   Tick: lease over                 Ended       Released                     unknown
//!   Releasing   Tick: lease over, session not    Undoing     Released, Send(undo)         nobody knows that it is
//!   Releasing   Tick: lease over, export         Undoing     Released, Send(undo)         of both, also after store_timeout
//!   Undoing     Reply: undone, no doubt          Ended       Parted
//!   Undoing     Reply: undone, an answer         Undoing     Parted, Send(undo)           while an acquire may yet be executed
//!   Undoing     Push: granted                    Undoing     Send(undo)
//!   Undoing     Tick: after a pause              Undoing     Send(undo)
//!   Undoing     Tick: the store has forgotten    Ended       -
//! ```
//!
//! *Ended* is Idle again, with [`Action::Ended`]: nothing of the attempt is left anywhere. Besides, any step may tell
//! the store's clock (`Learn`), what became of an attempt that was given back (`Released`), and whoever wanted more of
//! a hold that it did not get it (`Extended`, `Changed`). Events that change nothing are left out. `session/table.rs`
//! compares this table with the code.
//!
//! A reply counts only if it answers the request last sent in its conversation: request ids carry the attempt and a
//! number that never restarts.

use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, silent_store};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::lent::{Lent, Pool};
use crate::options::Retry;
use crate::protocol::{AttemptId, Input, Op, Protocol, Push, Reply, Requests, Step, StoreEvent, Terms, Verdict};
use crate::rank::Rank;
use crate::relative::Relative;
use crate::time::{StoreTime, Time};
use crate::token::Tokens;

mod asking;
mod bound;
mod giving_back;
mod holding;
mod resting;
mod state;
mod undoing;

pub(crate) use resting::Resting;
pub(crate) use state::CompactService;
use state::{Asked, GivingBack, Lease, Renewal};

/// Drift allowed between two clocks, as a fraction of the time measured: 1 %.
pub(crate) const DRIFT_DIVISOR: u32 = 100;
/// And a fixed allowance for their granularity.
const GRANULARITY: Duration = Duration::from_millis(2);
/// The longest that one who waits does not look after whoever holds the lock, so that a push which was lost, however
/// that came, costs no more; the shortest at which many thousand locks that are waited for cost next to nothing.
const LONGEST_PATIENCE: Duration = Duration::from_secs(30);
/// An answer that takes no longer than this is none that a store fails to give.
const PROMPT: Duration = Duration::from_millis(100);
/// First and longest pause before asking again a store that did not answer.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

/// What every reply is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The attempt that asked.
    pub attempt: AttemptId,
    /// The conversation.
    pub op: Op,
    /// Counts the writes of this session, round and round: no answer is that late.
    pub seq: u32,
}

/// How the present holder wants to hold, and a contender to wait; changes with a hand-off inside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Service {
    /// How long each renewal makes the lease last.
    pub ttl: Duration,
    /// Whether to renew.
    pub renew: bool,
    /// End renewal this long after the grant.
    pub max_hold: Option<Duration>,
    /// How often to ask where nothing can be pushed.
    pub retry: Retry,
}

impl Service {
    /// How a lease is held whose holder was forgotten: for what is `left` of it, and no longer.
    pub fn that_runs_out(left: Duration) -> Self {
        Service { ttl: left, renew: true, max_hold: Some(Duration::ZERO), retry: Retry::DEFAULT }
    }
}

/// Whether pushes can reach this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inbox {
    /// Nobody needed it yet, or it is being (re)subscribed.
    Closed,
    /// Subscribed and confirmed.
    Live,
    /// The store or the rights do not allow it: waiters poll.
    Unavailable,
}

/// What happened to a write.
#[derive(Debug)]
pub enum Answer<'a> {
    /// Every request of it was answered.
    Replies(&'a [Reply]),
    /// It certainly was not executed and never will be.
    NotSent(Error),
    /// It may have been executed, or may be yet, but not after `void_after`.
    Unknown { error: Error, void_after: Time },
    /// Some of the nodes that it went to answered; for the others there is [`Reply::Silent`], and what was sent to them
    /// may be executed until `void_after`.
    Partly { replies: &'a [Reply], void_after: Option<Time> },
}

/// What a session is told.
#[derive(Debug)]
pub enum Event<'a> {
    /// Contend under `terms`; only try unless `wait`.
    Acquire { terms: Terms, wait: bool, service: Service, inbox: Inbox },
    /// Take the lock over, under `terms`, from the secret that holds it.
    Resume { terms: Terms, secret: Terms, service: Service },
    /// The answer to a [`Action::Send`]; each gets exactly one. `sent` is when the write left.
    Reply { id: RequestId, sent: Time, answer: Answer<'a> },
    /// The store pushed something.
    Push(&'a StoreEvent),
    /// The inbox changed. `Live` again means that pushes may have been missed.
    Inbox(Inbox),
    /// The lease passed to another task of this process.
    Serve(Service),
    /// Make the lease last at least `ttl` from now, and from now on.
    Extend(Duration),
    /// Hold so many units of the shared record instead, in one request that renews the lease too.
    Change(u32),
    /// Tell from now on whether somebody asks for the lock back.
    Heed,
    /// Give back and contend again, in one request where the layout can.
    Yield { attempt: AttemptId, used: u64, service: Service },
    /// Give back; `used` is the highest token that was used, 0 where there are none.
    Release { used: u64 },
    /// Pass the lock to `secret`, which nobody is told before [`Action::Released`] says that it has it; `used` as
    /// above.
    Export { secret: Terms, used: u64 },
    /// Whoever wanted the lock is gone.
    Cancel,
    /// The client's session at the store lives until then, for a layout that is [bound](crate::protocol::Traits::bound)
    /// to it.
    Alive(Time),
    /// That session ended, and whatever it kept at the store.
    Over,
    /// The store may have forgotten what it promised (restart, failover): check at once.
    Verify,
    /// Time passed.
    Tick,
}

/// What a session wants done.
#[derive(Debug)]
pub enum Action {
    /// Write these and report one [`Event::Reply`], whatever happens.
    Send { id: RequestId, requests: Requests },
    /// Subscribe the inbox and report [`Event::Inbox`].
    OpenInbox,
    /// A request answered at `at` on the store's clock was sent at `sent`: correct the idea of that clock.
    Learn { sent: Time, at: StoreTime },
    /// The lock is held, under these tokens if there are any, until [`Session::valid_until`].
    Granted { tokens: Option<Tokens> },
    /// Somebody else holds it, and this contender only tried.
    Refused,
    /// It cannot be had.
    Failed(Error),
    /// It is not held any more.
    Lost(LossReason),
    /// The answer to every `Extend` that has none yet: whether the lease is extended.
    Extended(bool),
    /// Somebody asks for the lock back. May be told again.
    Wanted,
    /// The answer to `Change`: the token of what is held now; `None` when others hold what was wanted, or the hold is
    /// over.
    Changed(Option<u64>),
    /// What became of an attempt with a [place](Push::Place) that was given up: granted before that, under this token,
    /// or not at all. It is told as soon as it is certain, and perhaps again; not at all where it never is.
    Parted(Option<u64>),
    /// What became of the hold that was given back by `Release` or `Yield`.
    Released(ReleaseOutcome),
    /// Nothing of this contender is left anywhere; it may contend again.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking,
    Waiting,
    Confirming,
    Held,
    Releasing,
    Undoing,
}

/// What a store owes to a contender that asks it.
#[derive(Clone, Debug)]
pub struct Silence {
    /// Since when.
    owed: Time,
    /// When the last acquire that it answered left.
    answered: Option<Time>,
    /// What went wrong last; `None` while the first request is on its way.
    pub trouble: Option<Error>,
}

impl Silence {
    /// Why there is no answer at `now`, if the store said nothing to the contender after `since`. A request that has
    /// just left says nothing of the store.
    pub fn after(self, since: Time, now: Time) -> Option<Error> {
        let silent = self.owed <= since || self.answered.is_none_or(|at| at < since);
        let is_due = self.trouble.is_some() || now.since(self.owed) >= PROMPT;
        (silent && is_due).then(|| self.trouble.unwrap_or_else(|| silent_store("acquire")))
    }
}

/// The memory in which actions gather.
#[derive(Debug, Default)]
pub struct Scratch(Pool<Action>);

/// See the [module's table](self).
pub struct Session {
    protocol: Box<dyn Protocol>,
    store_timeout: Duration,
    phase: Phase,
    terms: Terms,
    service: CompactService,
    waits: bool,
    /// See [`Traits::bound`](crate::protocol::Traits::bound).
    bound: bool,
    inbox: Inbox,
    seq: u32,
    /// Until when the client's session lives, where what is held is bound to it.
    alive_until: Time,
    /// The unanswered write of each conversation.
    flights: [Option<NonZeroU32>; 4],
    asked: Asked,
    lease: Lease,
    renewal: Renewal,
    giving: GivingBack,
    actions: Lent<Action>,
}

impl Session {
    /// A session that speaks `protocol` and gives up on a store that stays silent for `store_timeout`.
    pub fn new(protocol: Box<dyn Protocol>, store_timeout: Duration) -> Self {
        let nobody = Terms {
            name: "".into(),
            attempt: AttemptId(0),
            inbox: crate::protocol::InboxId::NONE,
            ttl: Duration::ZERO,
            claim: Duration::ZERO,
            card: "".into(),
            fair: false,
            rank: Rank::LOWEST,
        };
        Session {
            bound: protocol.traits().bound,
            alive_until: Time::ZERO,
            protocol,
            store_timeout,
            phase: Phase::Idle,
            terms: nobody,
            service: CompactService::NOTHING,
            waits: false,
            inbox: Inbox::Closed,
            seq: 0,
            flights: [None; 4],
            asked: Asked::NOTHING,
            lease: Lease::NONE,
            renewal: Renewal::NONE,
            giving: GivingBack::NOTHING,
            actions: Lent::new(),
        }
    }

    /// Takes one event. Afterwards [`poll_action`](Self::poll_action) and [`poll_timeout`](Self::poll_timeout) may have
    /// changed; nothing else changes them.
    pub fn handle(&mut self, now: Time, event: Event<'_>) {
        match event {
            Event::Acquire { terms, wait, service, inbox } => self.contend(now, terms, wait, service, inbox),
            Event::Resume { terms, secret, service } => self.resume(now, terms, secret, service),
            Event::Reply { id, sent, answer } => self.answered(now, id, sent, answer),
            Event::Push(event) => self.pushed(now, event),
            Event::Inbox(inbox) => self.inbox_changed(now, inbox),
            Event::Serve(service) => self.serve(now, service),
            Event::Extend(ttl) => self.extend(now, ttl),
            Event::Change(units) => self.change(now, units),
            Event::Heed => self.heed(now),
            Event::Yield { attempt, used, service } => self.hand_back_and_contend(now, attempt, used, service),
            Event::Release { used } => self.release(now, used),
            Event::Export { secret, used } => self.export(now, secret, used),
            Event::Cancel => self.cancel(now),
            Event::Alive(until) => self.alive(now, until),
            Event::Over => self.session_over(now),
            Event::Verify => self.verify(now),
            Event::Tick => self.tick(now),
        }
    }

    /// [Ticks](Event::Tick) if something is due.
    pub(crate) fn look(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.tick(now);
        }
    }

    /// The next thing to do; drain it after every [`handle`](Self::handle).
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Lends the memory in which actions gather, before [`handle`](Self::handle). Whoever drives very many sessions
    /// lends the same to each in turn, so that none keeps its own.
    pub fn lend(&mut self, scratch: &mut Scratch) {
        scratch.0.lend(&mut self.actions);
    }

    /// Takes the memory back, after the last action.
    pub fn reclaim(&mut self, scratch: &mut Scratch) {
        scratch.0.take_back(&mut self.actions);
    }

    /// When to call [`handle`](Self::handle) with [`Event::Tick`] at the latest; `None` while only an event can change
    /// anything. Changes with every handled event.
    pub fn poll_timeout(&self) -> Option<Time> {
        let silent = match self.phase {
            Phase::Asking | Phase::Releasing => self.silent_until(),
            _ => None,
        };
        let held = match self.phase {
            Phase::Held | Phase::Confirming => Some(self.lease.valid_until),
            _ => None,
        };
        // While a renewal is unanswered, its answer decides when the next one is due.
        let renewal = self.renewal.due.filter(|_| self.flight(Op::Renew).is_none());
        [self.asked.wake, silent, held, renewal, self.gave_back_by()].into_iter().flatten().min()
    }

    /// The end of the belief to hold the lock; only while it is held.
    pub fn valid_until(&self) -> Option<Time> {
        (self.phase == Phase::Held).then_some(self.lease.valid_until)
    }

    /// The attempt it stands for at present.
    pub fn attempt(&self) -> AttemptId {
        self.terms.attempt
    }

    /// What its present attempt shows of itself.
    pub(crate) fn card(&self) -> &Arc<str> {
        &self.terms.card
    }

    /// Whether somebody else has the lock, as far as the store said, and this contender waits for it.
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// How many are ahead of it in the store's queue at most, as the store said last; `None` where it has no place
    /// there.
    pub fn ahead(&self) -> Option<u32> {
        let waits = matches!(self.phase, Phase::Asking | Phase::Waiting | Phase::Confirming);
        (waits && self.asked.ahead < u32::MAX).then_some(self.asked.ahead)
    }

    /// What the store owes it; `None` while it has the last word.
    pub fn silence(&self) -> Option<Silence> {
        let owed = self.asked.silent_since.filter(|_| self.phase == Phase::Asking)?;
        Some(Silence { owed, answered: self.asked.answered_write, trouble: self.asked.trouble.clone() })
    }

    /// Why the store refused for good what a held lock was to be renewed or changed to.
    pub fn refusal(&self) -> Option<&Error> {
        self.not_renewed().filter(|error| !may_pass(error))
    }

    /// Why the last renewal or change of a held lock was not done, where the store, or the way to it, said so.
    pub fn not_renewed(&self) -> Option<&Error> {
        self.asked.trouble.as_ref().filter(|_| self.phase == Phase::Held)
    }

    /// Whether what it holds is to be changed, and the store did not say yet that it is.
    pub fn is_changing(&self) -> bool {
        self.renewal.changing.is_some()
    }

    /// Whether nobody wants the lock any more, and what was asked of the store is being undone.
    pub fn is_undoing(&self) -> bool {
        self.phase == Phase::Undoing
    }

    /// Whether the last renewal was not confirmed, and will be tried again.
    pub fn is_failing(&self) -> bool {
        self.phase == Phase::Held && self.asked.retries > 0
    }

    /// The first token of the present grant.
    pub fn first_token(&self) -> Option<u64> {
        self.lease.tokens.map(Tokens::first)
    }

    /// Whether the present grant is under `token`, or has set it aside for a hand-off.
    pub fn has_token(&self, token: u64) -> bool {
        let is_one_of = |tokens: Tokens| (tokens.first()..=tokens.last()).contains(&token);
        self.phase == Phase::Held && self.lease.tokens.is_some_and(is_one_of)
    }

    /// How long each renewal makes the lease last.
    pub fn ttl(&self) -> Duration {
        self.service.get().ttl
    }

    /// Whether the hold goes on until it is given back, as long as the store answers.
    pub fn is_endless(&self) -> bool {
        matches!(self.service.get(), Service { renew: true, max_hold: None, .. })
    }

    /// How long a push that arrives now makes the lock ours.
    pub fn claim(&self) -> Duration {
        self.terms.claim
    }

    /// Whether the held lease may pass to another task of this process, or be yielded: nothing about it is in doubt.
    pub fn is_certain(&mut self, now: Time) -> bool {
        self.asked.doubt.take_if(|until| *until <= now);
        self.phase == Phase::Held && self.is_settled()
    }

    /// The channel on which it hears that asking may help, where the layout has one.
    pub fn channel(&self) -> Option<Arc<str>> {
        self.channel_of(&self.terms)
    }

    /// The channel on which it would hear that if it asked on these terms.
    pub fn channel_of(&self, terms: &Terms) -> Option<Arc<str>> {
        self.protocol.channel(terms)
    }

    /// Whether it asks to be served in the order of the store's queue.
    pub fn is_fair(&self) -> bool {
        self.terms.fair
    }

    /// Whether it has use for hints: it does not hold the lock and may have to wait for it.
    pub fn listens(&self) -> bool {
        self.waits && matches!(self.phase, Phase::Asking | Phase::Waiting | Phase::Confirming)
    }

    /// What the layout can do.
    pub fn traits(&self) -> crate::protocol::Traits {
        self.protocol.traits()
    }

    /// One step of a conversation; `sent` is when the write now answered left.
    fn converse(&mut self, now: Time, sent: Time, op: Op, input: Input<'_>) {
        let goes_on = !matches!(input, Input::Begin(_));
        let step = self.protocol.step(input);
        self.follow(now, sent, op, goes_on, step);
    }

    fn follow(&mut self, now: Time, sent: Time, op: Op, goes_on: bool, step: Step) {
        match step {
            Step::Ask(requests) => {
                // What an acquire was answered so far may have left something at the store.
                self.asked.touched |= goes_on && op == Op::Acquire;
                if op == Op::Acquire && self.phase == Phase::Waiting {
                    // To an event: the store owes an answer, and what is asked in vain is asked again.
                    self.phase = Phase::Asking;
                    self.asked.wake = None;
                    self.asked.silent_since.get_or_insert(now);
                }
                self.send(op, requests);
            }
            Step::Wait(wait) => self.queued(now, sent, wait),
            Step::Done(verdict) => self.conclude(now, sent, op, verdict),
            // A layout may have forgotten, with the undo, what is answered here.
            Step::Ignore if op == Op::Acquire && self.phase == Phase::Undoing => {
                self.answered_after_the_undo(now, None);
            }
            Step::Ignore => {}
        }
    }

    fn send(&mut self, op: Op, requests: Requests) {
        self.seq = self.seq.wrapping_add(1).max(1);
        self.flights[op as usize] = NonZeroU32::new(self.seq);
        let id = RequestId { attempt: self.terms.attempt, op, seq: self.seq };
        self.actions.push_back(Action::Send { id, requests });
    }

    /// Whether no acquire of this attempt can be executed any more.
    fn is_settled(&self) -> bool {
        self.asked.doubt.is_none() && self.flight(Op::Acquire).is_none()
    }

    fn flight(&self, op: Op) -> Option<u32> {
        self.flights[op as usize].map(NonZeroU32::get)
    }

    fn answered(&mut self, now: Time, id: RequestId, sent: Time, answer: Answer<'_>) {
        if !self.awaits(id) {
            return;
        }
        self.flights[id.op as usize] = None;
        let is_silent = matches!(answer, Answer::NotSent(_) | Answer::Unknown { .. });
        if id.op == Op::Acquire && is_silent && std::mem::take(&mut self.asked.not_yet) {
            // From now on it is owed an answer again.
            self.asked.silent_since = Some(now);
        }
        match answer {
            Answer::Replies(replies) => self.replied(now, id.op, sent, replies),
            Answer::NotSent(error) => self.unanswered(now, id.op, error),
            Answer::Unknown { error, void_after } => {
                self.in_doubt(id.op, void_after);
                self.unanswered(now, id.op, error);
            }
            Answer::Partly { replies, void_after } => {
                if let Some(until) = void_after {
                    self.in_doubt(id.op, until);
                }
                // What a silent node did not give back is undone.
                self.asked.touched |= id.op == Op::Release;
                self.replied(now, id.op, sent, replies);
            }
        }
    }

    fn replied(&mut self, now: Time, op: Op, sent: Time, replies: &[Reply]) {
        if op == Op::Acquire && self.asked.stale && self.phase == Phase::Asking {
            self.asked.touched = true;
            return self.ask(now);
        }
        if op == Op::Acquire {
            self.asked.answered_write = Some(sent);
        }
        self.converse(now, sent, op, Input::Reply(op, replies));
    }

    /// What was sent may be executed until then, and nobody would be told.
    fn in_doubt(&mut self, op: Op, until: Time) {
        match op {
            Op::Acquire => {
                self.asked.touched = true;
                self.asked.doubt = self.asked.doubt.max(Some(until));
            }
            Op::Release => self.asked.repeated = true,
            Op::Renew => {
                if let Some(changing) = &mut self.renewal.changing {
                    changing.doubt = changing.doubt.max(Some(until));
                }
            }
            Op::Undo => {}
        }
    }

    /// A write got no reply. What the store refused for good ends the attempt; everything else is asked again later.
    fn unanswered(&mut self, now: Time, op: Op, error: Error) {
        let hopeless = !may_pass(&error);
        let pause = self.pause(RETRY);
        match (op, self.phase) {
            (Op::Acquire, Phase::Asking) if hopeless => self.fail(now, error),
            (Op::Acquire, Phase::Undoing) if !self.asked.touched && self.giving.prev.is_none() => self.never_asked(),
            (Op::Acquire, Phase::Undoing) => self.answered_after_the_undo(now, None),
            (Op::Renew, Phase::Held | Phase::Confirming) => {
                self.remember(error);
                self.renewal.due = Some(now.after(pause));
            }
            (Op::Acquire, Phase::Asking) => {
                self.remember(error);
                match self.is_silent_too_long(now) {
                    true => self.fail_in_silence(now),
                    false => self.asked.wake = Some(now.after(pause)),
                }
            }
            (Op::Release, Phase::Releasing) | (Op::Undo, Phase::Undoing) => {
                self.asked.wake = Some(now.after(pause));
            }
            _ => {}
        }
    }

    /// That a task of this process went away says nothing of the store.
    fn remember(&mut self, error: Error) {
        if error.kind() != Kind::Cancelled {
            self.asked.trouble = Some(error);
        }
    }

    fn silent_until(&self) -> Option<Time> {
        self.asked.silent_since.filter(|_| !self.asked.not_yet).map(|since| since.after(self.store_timeout))
    }

    fn is_silent_too_long(&self, now: Time) -> bool {
        self.silent_until().is_some_and(|until| now >= until)
    }

    fn conclude(&mut self, now: Time, sent: Time, op: Op, verdict: Verdict) {
        match (op, self.phase) {
            (Op::Acquire, Phase::Asking | Phase::Waiting) => self.acquire_concluded(now, sent, verdict),
            // The push came first; but this made the lease last for the ttl, and giving it back must be tried for as
            // long.
            (Op::Acquire, Phase::Held | Phase::Confirming | Phase::Releasing) => {
                if let Verdict::Granted(_) = verdict {
                    self.lasts(sent, now, self.terms.ttl);
                }
            }
            (Op::Acquire, Phase::Undoing) => self.answered_after_the_undo(now, verdict.prev()),
            (Op::Renew, Phase::Held | Phase::Confirming) => self.renew_concluded(now, sent, verdict),
            (Op::Release, Phase::Releasing) => self.release_concluded(now, verdict),
            (Op::Undo, Phase::Undoing) => self.undo_concluded(now, verdict),
            _ => {}
        }
    }

    fn learn(&mut self, sent: Time, at: Option<StoreTime>) {
        if let Some(at) = at {
            self.actions.push_back(Action::Learn { sent, at });
        }
    }

    fn pushed(&mut self, now: Time, event: &StoreEvent) {
        match event {
            StoreEvent::Granted { attempt, .. } if *attempt == self.terms.attempt => match self.phase {
                Phase::Asking | Phase::Waiting => self.heard(now, event),
                Phase::Undoing => self.undo_again(now),
                _ => {}
            },
            StoreEvent::Broken { attempt } if *attempt == self.terms.attempt => self.told_that_it_is_broken(now),
            StoreEvent::BrokenAt { path } if self.protocol.keeps(path) => self.told_that_it_is_broken(now),
            StoreEvent::Broken { attempt }
                if self.giving.prev.as_ref().is_some_and(|prev| prev.terms.attempt == *attempt) =>
            {
                self.giving.given_until = Time::ZERO;
            }
            StoreEvent::Next { tail } if *tail == self.terms.attempt.tail() && self.phase == Phase::Waiting => {
                let claim_over = now.after(self.patience(crate::options::CLAIM, 0));
                self.asked.wake = self.asked.wake.map(|at| at.min(claim_over));
            }
            StoreEvent::Turn { attempt } if *attempt == self.terms.attempt => self.told_to_ask(now),
            StoreEvent::Dropped => self.told_to_ask(now),
            StoreEvent::Changed { .. } if self.phase == Phase::Held && self.renewal.heeds => {
                self.look_whether_wanted(now);
            }
            StoreEvent::Changed { path } if self.is_hinted() => self.hinted(now, path),
            StoreEvent::Changed { .. } | StoreEvent::Gone { .. }
                if matches!(self.phase, Phase::Asking | Phase::Waiting) =>
            {
                self.heard(now, event);
            }
            _ => {}
        }
    }

    fn told_that_it_is_broken(&mut self, now: Time) {
        if matches!(self.phase, Phase::Held | Phase::Confirming) {
            self.asked.broken = true;
            self.renew_unless_changing(now);
        }
    }

    fn told_to_ask(&mut self, now: Time) {
        match self.phase {
            Phase::Waiting => self.ask(now),
            Phase::Asking => self.asked.ask_again = true,
            _ => {}
        }
    }

    fn tick(&mut self, now: Time) {
        if self.gave_back_by().is_some_and(|by| now >= by) {
            self.tell_released(ReleaseOutcome::Unknown);
        }
        match self.phase {
            Phase::Held if now >= self.lease.valid_until => {
                let reason = self.expires_as();
                self.lose(now, reason);
            }
            Phase::Confirming if now >= self.lease.valid_until => self.ask(now),
            Phase::Held | Phase::Confirming => self.renew_if_due(now),
            Phase::Asking if self.is_silent_too_long(now) => self.fail_in_silence(now),
            Phase::Releasing if now >= self.lease.store_until => self.retract(now),
            Phase::Releasing if self.giving.secret.is_some() && self.is_silent_too_long(now) => self.retract(now),
            Phase::Releasing if self.is_silent_too_long(now) => {
                self.tell_released(ReleaseOutcome::Unknown);
                self.asked.silent_since = None;
                self.tick(now);
            }
            Phase::Undoing if self.forgotten_at().is_some_and(|at| now >= at) => self.end(),
            _ => self.retry_if_due(now),
        }
    }

    fn retry_if_due(&mut self, now: Time) {
        if self.asked.wake.is_none_or(|at| now < at) {
            return;
        }
        match self.phase {
            Phase::Asking | Phase::Waiting => self.ask(now),
            Phase::Releasing => self.send_release(now),
            Phase::Undoing => self.undo(now),
            _ => {}
        }
    }

    /// The next of a row of growing pauses.
    fn pause(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        let pause = first.saturating_mul(1 << self.asked.retries.min(16)).min(longest);
        self.asked.retries = self.asked.retries.saturating_add(1);
        self.jittered(pause)
    }

    /// Up to an eighth less than `duration`, differing from attempt to attempt so that waiters do not ask in step.
    fn jittered(&self, duration: Duration) -> Duration {
        let mixed = (self.terms.attempt.0 as u64 ^ u64::from(self.seq)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // A lock may be held without an end.
        duration - duration / (8 * 256) * u32::from((mixed >> 56) as u8)
    }

    /// A copy in the same state, for those who explore what could happen next.
    pub fn duplicate(&self) -> Self {
        Session {
            protocol: self.protocol.duplicate(),
            terms: self.terms.clone(),
            asked: self.asked.clone(),
            renewal: self.renewal.clone(),
            giving: self.giving.clone(),
            actions: Lent::new(),
            ..*self
        }
    }

    /// Whether an answer to `id` would be taken.
    pub fn awaits(&self, id: RequestId) -> bool {
        id.attempt == self.terms.attempt && self.flight(id.op) == Some(id.seq)
    }

    /// Feeds everything that later answers depend on to `state`, in the names of `view`. What a phase has no use for is
    /// left out.
    pub fn fingerprint(&self, view: &impl Relative, state: &mut impl Hasher) {
        self.phase.hash(state);
        if self.phase == Phase::Idle {
            return;
        }
        let ahead = |at: Option<Time>| at.map(|at| view.ahead(at));
        self.protocol.fingerprint(state);
        let attempt = view.attempt(self.terms.attempt);
        (
            attempt,
            self.terms.ttl,
            self.terms.claim,
            self.terms.fair,
            self.terms.rank,
            self.service,
            self.waits,
            self.inbox,
        )
            .hash(state);
        (
            self.asked.ask_again,
            self.asked.touched,
            self.asked.placed,
            self.asked.told,
            self.asked.repeated,
            self.renewal.extending,
            self.asked.retries.min(16),
        )
            .hash(state);
        let prev = self.giving.prev.as_ref();
        let prev =
            prev.map(|p| (view.attempt(p.terms.attempt), view.token(p.used), view.ahead(self.giving.given_until)));
        (prev, ahead(self.gave_back_by())).hash(state);
        self.giving.secret.as_ref().map(|secret| (view.attempt(secret.attempt), secret.ttl)).hash(state);
        (self.flight(Op::Acquire).is_some(), self.asked.published, self.asked.broken).hash(state);
        (ahead(self.asked.wake), ahead(self.asked.doubt)).hash(state);
        (view.ahead(self.lease.store_until), ahead(self.forgotten_at()), ahead(self.place_forgotten_at())).hash(state);
        if self.bound {
            (view.ahead(self.alive_until), self.asked.stale, self.asked.orphaned).hash(state);
        }
        if matches!(self.phase, Phase::Asking | Phase::Releasing) {
            (self.asked.asked_to_queue, ahead(self.silent_until())).hash(state);
        }
        if matches!(self.phase, Phase::Asking | Phase::Waiting | Phase::Confirming) {
            let dated = match self.asked.anchor {
                Some((sent, at)) => (true, view.lag(sent, at)),
                None => (false, self.asked.first_sent.map_or(0, |at| view.ago(at))),
            };
            dated.hash(state);
            let watches = matches!(self.protocol.traits().push, Push::Watch | Push::WatchedPlace);
            self.asked.answered_write.filter(|_| watches).map(|at| view.ago(at)).hash(state);
        }
        if matches!(self.phase, Phase::Held | Phase::Confirming) {
            self.lease.tokens.map(|tokens| (view.token(tokens.first()), view.token(tokens.last()))).hash(state);
            (self.renewal.heeds, self.renewal.again).hash(state);
            (self.flight(Op::Renew).map(|_| self.renewal.ttl), ahead(self.renewal.due)).hash(state);
            view.ahead(self.lease.valid_until).hash(state);
            self.service.get().max_hold.map(|max| view.ahead(self.lease.granted_at.after(max))).hash(state);
        }
        let changing = self.renewal.changing.as_ref();
        changing.map(|changing| (changing.units, changing.doubt.map(|until| view.ahead(until)))).hash(state);
        if self.phase == Phase::Releasing {
            (view.token(self.lease.used), self.flight(Op::Release).is_some()).hash(state);
        }
        if self.phase == Phase::Undoing {
            self.flight(Op::Undo).is_some().hash(state);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("phase", &self.phase)
            .field("attempt", &self.terms.attempt)
            .field("valid_until", &self.lease.valid_until)
            .field("flights", &self.flights)
            .finish_non_exhaustive()
    }
}

/// Whether asking again later may help.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), Kind::Unavailable | Kind::Quorum | Kind::Internal | Kind::Cancelled)
}

/// When a `lease` that began at `from` is to be renewed: after a third of it. Locks taken one after another renew
/// together: due times fall on common ticks, never later than wanted.
fn renewal_due(from: Time, lease: Duration) -> Time {
    let interval = lease / 3;
    let tick = u64::try_from((interval / 16).as_nanos()).unwrap_or(u64::MAX).max(1);
    Time::from_nanos(from.after(interval).as_nanos() / tick * tick)
}

/// What is taken off a lease for the drift between two clocks.
pub fn margin(lease: Duration) -> Duration {
    lease / DRIFT_DIVISOR + GRANULARITY
}

/// How long a pushed grant lasts until its first renewal, for locks of this `ttl`.
pub fn claim(ttl: Duration) -> Duration {
    ttl.min(crate::options::CLAIM)
}

#[cfg(test)]
mod table;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native_machine::{Calls, NativeMachine};
    use crate::protocol::InboxId;

    const TTL: Duration = Duration::from_secs(30);
    static CALLS: Calls = Calls::of_cell();

    /// A contender whose first request has left.
    fn asking() -> (Session, RequestId, Time) {
        let mut session = Session::new(Box::new(NativeMachine::new(&CALLS, "x".into(), true)), TTL);
        let (attempt, inbox) = (AttemptId(1), InboxId(1));
        let (name, card) = ("x".into(), "".into());
        let terms = Terms { name, attempt, inbox, ttl: TTL, claim: claim(TTL), card, fair: false, rank: Rank::LOWEST };
        let service = Service { ttl: TTL, renew: true, max_hold: None, retry: Retry::DEFAULT };
        let now = Time::from_nanos(1_000_000_000);
        session.handle(now, Event::Acquire { terms, wait: true, service, inbox: Inbox::Live });
        let Some(Action::Send { id, .. }) = session.poll_action() else { panic!("nothing is asked") };
        (session, id, now)
    }

    /// When a waiter asks again that was queued with `ahead` others ahead and `remaining` milliseconds left to the
    /// holder.
    fn asks_again_after(remaining: i64, ahead: i64) -> Duration {
        let (mut session, id, now) = asking();
        let queued = [1, 5, remaining * 1000, ahead, 0].map(Reply::Int).to_vec();
        let replies = [Reply::List(queued)];
        session.handle(now, Event::Reply { id, sent: now, answer: Answer::Replies(&replies) });
        session.poll_timeout().unwrap().since(now)
    }

    #[test]
    fn who_gives_up_a_place_after_a_long_wait_is_not_content_with_one_undo_that_did_not_leave() {
        let (mut session, id, now) = asking();
        let queued = [Reply::List([1, 5, 60_000_000, 0, 0].map(Reply::Int).to_vec())];
        session.handle(now, Event::Reply { id, sent: now, answer: Answer::Replies(&queued) });
        while session.poll_action().is_some() {}
        let mut now = now.after(10 * TTL);
        session.handle(now, Event::Cancel);
        for _ in 0..3 {
            let Some(Action::Send { id, .. }) = session.poll_action() else { panic!("nothing is undone") };
            assert_eq!(id.op, Op::Undo);
            let error = Error::new(Kind::Unavailable, "cancel", "nobody is there");
            session.handle(now, Event::Reply { id, sent: now, answer: Answer::NotSent(error) });
            now = session.poll_timeout().expect("it is asked again");
            session.handle(now, Event::Tick);
        }
    }

    #[test]
    fn who_gives_back_to_a_server_that_grants_nothing_yet_is_told_in_time() {
        let (mut session, id, now) = asking();
        let granted = [Reply::Int(1)];
        session.handle(now, Event::Reply { id, sent: now, answer: Answer::Replies(&granted) });
        assert!(std::iter::from_fn(|| session.poll_action()).any(|action| matches!(action, Action::Granted { .. })));
        let service = Service { ttl: TTL, renew: true, max_hold: None, retry: Retry::DEFAULT };
        session.handle(now, Event::Yield { attempt: AttemptId(2), used: 1, service });
        let (code, message) = crate::young(2 * TTL, "it is new");
        let young = [Reply::Error { code, message }];
        let mut at = now;
        for _ in 0..1000 {
            match session.poll_action() {
                Some(Action::Send { id, .. }) => {
                    session.handle(at, Event::Reply { id, sent: at, answer: Answer::Replies(&young) });
                }
                Some(Action::Released(outcome)) => {
                    assert_eq!((outcome, at.since(now)), (ReleaseOutcome::Unknown, TTL));
                    return;
                }
                Some(_) => {}
                None => {
                    at = session.poll_timeout().expect("it asks again");
                    session.handle(at, Event::Tick);
                }
            }
        }
        panic!("nobody is told what became of a release");
    }

    #[test]
    fn a_neighbour_that_went_away_says_nothing_of_the_store() {
        let unanswered = |kind| {
            let (mut session, id, now) = asking();
            let answer = Answer::Unknown { error: Error::new(kind, "acquire", "no answer"), void_after: now };
            session.handle(now, Event::Reply { id, sent: now, answer });
            session.silence().unwrap().after(now, now)
        };
        assert!(unanswered(Kind::Cancelled).is_none());
        assert_eq!(unanswered(Kind::Unavailable).unwrap().kind(), Kind::Unavailable);
    }

    #[test]
    fn the_first_in_line_looks_at_the_holders_end_and_the_others_later() {
        let millis = |ms: u64| Duration::from_millis(ms);
        let cases = [
            // While claims follow each other, most of a long queue is asleep.
            (400, 0, 406),
            (400, 1, 406 + 125),
            (1_000, 8, 1_012 + 1_000),
            (400, 200, 406 + 25_000),
            // At the end of a long lease all of the head may be gone.
            (5_000, 0, 5_052),
            (5_000, 1, 5_052 + 125),
            (5_000, 400, 5_052 + 1_000),
            // However long that is, a push may have been lost.
            (86_400_000, 0, 30_000),
        ];
        for (remaining, ahead, earliest) in cases {
            let after = asks_again_after(remaining, ahead);
            let range = millis(earliest)..=millis(earliest + 125);
            assert!(range.contains(&after), "{remaining} {ahead}: {after:?}");
        }
        let long = asks_again_after(400, 100_000);
        assert!(long <= TTL + millis(600), "a free lock is not left idle for longer than a lease: {long:?}");
    }
}
