//! The life of one contender for one lock: asking, waiting, holding, renewing, giving back.
//!
//! Written once for every store and pure: time is handed in, bytes go out as [`Action`]s. It alone reasons about time. Cancel
//! and release are events in it, never a dropped future, so whatever was sent is finished or undone.
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
//!   Held        Verify                           Held        Send(renew)
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
//!   Releasing   Tick: lease over, export         Undoing     Released, Send(undo)         of both, also after store_timeout
//!   Undoing     Reply: undone, no doubt          Ended       Parted
//!   Undoing     Reply: undone, an answer         Undoing     Parted, Send(undo)           while an acquire may yet be executed
//!   Undoing     Push: granted                    Undoing     Send(undo)
//!   Undoing     Tick: after a pause              Undoing     Send(undo)
//!   Undoing     Tick: the store has forgotten    Ended       -
//! ```
//!
//! *Ended* is Idle again, with [`Action::Ended`]: nothing of the attempt is left anywhere. Besides, any step may tell the store's clock
//! (`Learn`), what became of an attempt that was given back (`Released`), and whoever wanted more of a hold that it did not get it
//! (`Extended`, `Changed`). Events that change nothing are left out. `session/table.rs` compares this table with the code.
//!
//! A reply counts only if it answers the request last sent in its conversation: request ids carry the attempt and a number
//! that never restarts.

use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind};
use crate::lease::{LossReason, ReleaseOutcome};
use crate::lent::Lent;
use crate::options::Retry;
use crate::protocol::{
    AttemptId, Change, Grant, Input, Intent, Op, Previous, Protocol, Push, Reply, Requests, Step, StoreEvent, Term,
    Terms, Verdict, Wait,
};
use crate::relative::Relative;
use crate::time::{StoreTime, Time};

/// Drift allowed between two clocks, as a fraction of the time measured: 1 %.
pub(crate) const DRIFT_DIVISOR: u32 = 100;
/// And a fixed allowance for their granularity.
const GRANULARITY: Duration = Duration::from_millis(2);
/// The longest that one who waits does not look after whoever holds the lock, so that a push which was lost, however that came, costs no
/// more; the shortest at which many thousand locks that are waited for cost next to nothing.
const LONGEST_PATIENCE: Duration = Duration::from_secs(30);
/// An answer that takes no longer than this is none that a store fails to give.
const PROMPT: Duration = Duration::from_millis(100);
/// First and longest pause before asking again a store that did not answer.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

/// What every reply is matched by. Never reused: `seq` goes on from one attempt to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The attempt that asked.
    pub attempt: AttemptId,
    /// The conversation.
    pub op: Op,
    /// Counts every write of this session.
    pub seq: u64,
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

/// A [`Service`] as it is kept: a client may hold very many locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompactService {
    ttl: u64,
    /// The longest there is for none.
    max_hold: u64,
    retry: (u64, u64),
    renew: bool,
}

impl From<Service> for CompactService {
    fn from(Service { ttl, renew, max_hold, retry: Retry { min, max } }: Service) -> Self {
        let nanos = |span| Span::of(span).nanos();
        let retry = (nanos(min), nanos(max));
        CompactService { ttl: nanos(ttl), max_hold: max_hold.map_or(u64::MAX, nanos), retry, renew }
    }
}

impl CompactService {
    const NOTHING: CompactService = CompactService { ttl: 0, max_hold: u64::MAX, retry: (0, 0), renew: false };

    pub(crate) fn get(self) -> Service {
        let [ttl, max_hold, min, max] = [self.ttl, self.max_hold, self.retry.0, self.retry.1].map(Duration::from_nanos);
        let max_hold = (self.max_hold < u64::MAX).then_some(max_hold);
        Service { ttl, renew: self.renew, max_hold, retry: Retry { min, max } }
    }
}

/// A duration in half the memory. Kept as one more than its nanoseconds, so that an `Option` of it takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Span(NonZeroU64);

impl Span {
    fn of(span: Duration) -> Self {
        Span(NonZeroU64::MIN.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX - 2).min(u64::MAX - 2)))
    }

    fn nanos(self) -> u64 {
        self.0.get() - 1
    }

    fn get(self) -> Duration {
        Duration::from_nanos(self.nanos())
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
    /// Give back and contend again, in one request where the layout can.
    Yield { attempt: AttemptId, used: u64, service: Service },
    /// Give back; `used` is the highest token that was used.
    Release { used: u64 },
    /// Pass the lock to `secret`, which nobody is told before [`Action::Released`] says that it has it; `used` as above.
    Export { secret: Terms, used: u64 },
    /// Whoever wanted the lock is gone.
    Cancel,
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
    /// The lock is held, under the tokens `first..=last`, until [`Session::valid_until`].
    Granted { first: u64, last: u64 },
    /// Somebody else holds it, and this contender only tried.
    Refused,
    /// It cannot be had.
    Failed(Error),
    /// It is not held any more.
    Lost(LossReason),
    /// The answer to every `Extend` that has none yet: whether the lease is extended.
    Extended(bool),
    /// The answer to `Change`: the token of what is held now; `None` when others hold what was wanted, or the hold is over.
    Changed(Option<u64>),
    /// What became of an attempt with a [place](Push::Place) that was given up: granted before that, under this token, or not at all. It
    /// is told as soon as it is certain, and perhaps again; not at all where it never is.
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

/// A change that the store has not answered for good.
#[derive(Clone, Debug, Hash)]
struct Changing {
    units: u32,
    /// Until when one that was sent may still be executed.
    doubt: Option<Time>,
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
    /// Why there is no answer at `now`, if the store said nothing to the contender after `since`. A request that has just left
    /// says nothing of the store.
    pub fn after(self, since: Time, now: Time) -> Option<Error> {
        let silent = self.owed <= since || self.answered.is_none_or(|at| at < since);
        let is_due = self.trouble.is_some() || now.since(self.owed) >= PROMPT;
        (silent && is_due).then(|| self.trouble.unwrap_or_else(silent_store))
    }
}

/// The memory in which actions gather.
#[derive(Debug, Default)]
pub struct Scratch(Lent<Action>);

/// See the [module's table](self).
pub struct Session {
    protocol: Box<dyn Protocol>,
    store_timeout: Duration,
    phase: Phase,
    terms: Terms,
    service: CompactService,
    waits: bool,
    inbox: Inbox,
    /// The earlier attempt that the acquire conversation gives back, until an answer says that it did.
    prev: Option<Box<Previous>>,
    /// Until when that one's lease was ours.
    given_until: Time,
    /// While asking, the secret that the lock is taken over from; while releasing, the one that it is passed to.
    secret: Option<Box<Terms>>,
    seq: u64,
    /// The unanswered write of each conversation.
    flights: [Option<NonZeroU64>; 4],
    /// Whether the acquire in flight asked for a place in the queue.
    asked_to_queue: bool,
    /// How many were ahead of it in the queue by the last answer; the highest number there is while it has no place.
    ahead: u32,
    /// Until when an acquire whose outcome is unknown may still be executed.
    doubt: Option<Time>,
    /// When this attempt's first acquire was sent.
    first_sent: Option<Time>,
    /// A grant of this attempt was pushed, so that others may know the attempt and push what they like.
    published: bool,
    /// It was pushed that the hold was broken; a renewal sent since then tells.
    broken: bool,
    /// Sending time of an acquire that was answered "queued", and the store's time in that answer.
    anchor: Option<(Time, StoreTime)>,
    /// When the last acquire of this attempt that was answered left.
    answered_write: Option<Time>,
    /// An event came that calls for asking again once the acquire in flight is answered.
    ask_again: bool,
    /// Something of this attempt may be at the store.
    touched: bool,
    /// The answer that it is queued came after its grant: should the hold turn out to be lost, a place may be left.
    placed: bool,
    /// Since when the store has been owing an answer to the phase's conversation.
    silent_since: Option<Time>,
    /// Why the acquire that is asked again was not answered, or the last renewal of what is held not done.
    trouble: Option<Error>,
    /// How often the present thing was retried in a row.
    retries: u8,
    /// When the phase wants to be woken.
    wake: Option<Time>,
    tokens: (u64, u64),
    used: u64,
    granted_at: Time,
    valid_until: Time,
    /// The latest time at which the store may still see a lease of this attempt.
    store_until: Time,
    renew_at: Option<Time>,
    /// What the renewal in flight asked for; the present task may want something else.
    renewing: Span,
    /// The ttl that `Extend` asks for, until the store says yes or no.
    extending: Option<Span>,
    /// What `Change` asks for, likewise.
    changing: Option<Box<Changing>>,
    /// The release was sent before and its outcome is not known.
    repeated: bool,
    /// The outcome of the release was told already.
    told: bool,
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
        };
        Session {
            protocol,
            store_timeout,
            phase: Phase::Idle,
            terms: nobody,
            service: CompactService::NOTHING,
            waits: false,
            inbox: Inbox::Closed,
            prev: None,
            given_until: Time::ZERO,
            secret: None,
            seq: 0,
            flights: [None; 4],
            asked_to_queue: false,
            ahead: u32::MAX,
            doubt: None,
            first_sent: None,
            published: false,
            broken: false,
            anchor: None,
            answered_write: None,
            ask_again: false,
            touched: false,
            placed: false,
            silent_since: None,
            trouble: None,
            retries: 0,
            wake: None,
            tokens: (0, 0),
            used: 0,
            granted_at: Time::ZERO,
            valid_until: Time::ZERO,
            store_until: Time::ZERO,
            renew_at: None,
            renewing: Span::of(Duration::ZERO),
            extending: None,
            changing: None,
            repeated: false,
            told: false,
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
            Event::Yield { attempt, used, service } => self.hand_back_and_contend(now, attempt, used, service),
            Event::Release { used } => self.release(now, used),
            Event::Export { secret, used } => self.export(now, secret, used),
            Event::Cancel => self.cancel(now),
            Event::Verify => self.verify(now),
            Event::Tick => self.tick(now),
        }
    }

    /// The next thing to do; drain it after every [`handle`](Self::handle).
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Lends the memory in which actions gather, before [`handle`](Self::handle). Whoever drives very many sessions lends the
    /// same to each in turn, so that none keeps its own.
    pub fn lend(&mut self, scratch: &mut Scratch) {
        self.actions.exchange(&mut scratch.0);
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
            Phase::Held | Phase::Confirming => Some(self.valid_until),
            _ => None,
        };
        // While a renewal is unanswered, its answer decides when the next one is due.
        let renewal = self.renew_at.filter(|_| self.flight(Op::Renew).is_none());
        [self.wake, silent, held, renewal].into_iter().flatten().min()
    }

    /// When the next renewal will be due if the one under way is answered soon; it is no time limit. A driver that looks at
    /// the session then need not be told of it once more.
    pub fn next_renewal(&self, now: Time) -> Option<Time> {
        let renews = self.flight(Op::Renew).is_some() && self.service.renew;
        renews.then(|| due_after(now, self.renewing.get() / 3))
    }

    /// The end of the belief to hold the lock; only while it is held.
    pub fn valid_until(&self) -> Option<Time> {
        (self.phase == Phase::Held).then_some(self.valid_until)
    }

    /// The attempt it stands for at present.
    pub fn attempt(&self) -> AttemptId {
        self.terms.attempt
    }

    /// Whether somebody else has the lock, as far as the store said, and this contender waits for it.
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// How many are ahead of it in the store's queue at most, as the store said last; `None` where it has no place there.
    pub fn ahead(&self) -> Option<u32> {
        let waits = matches!(self.phase, Phase::Asking | Phase::Waiting | Phase::Confirming);
        (waits && self.ahead < u32::MAX).then_some(self.ahead)
    }

    /// What the store owes it; `None` while it has the last word.
    pub fn silence(&self) -> Option<Silence> {
        let owed = self.silent_since.filter(|_| self.phase == Phase::Asking)?;
        Some(Silence { owed, answered: self.answered_write, trouble: self.trouble.clone() })
    }

    /// Why the store refused for good what a held lock was to be renewed or changed to.
    pub fn refusal(&self) -> Option<&Error> {
        self.not_renewed().filter(|error| !may_pass(error))
    }

    /// Why the last renewal or change of a held lock was not done, where the store, or the way to it, said so.
    pub fn not_renewed(&self) -> Option<&Error> {
        self.trouble.as_ref().filter(|_| self.phase == Phase::Held)
    }

    /// Whether nobody wants the lock any more, and what was asked of the store is being undone.
    pub fn is_undoing(&self) -> bool {
        self.phase == Phase::Undoing
    }

    /// Whether the last renewal was not confirmed, and will be tried again.
    pub fn is_failing(&self) -> bool {
        self.phase == Phase::Held && self.retries > 0
    }

    /// The first token of the present grant.
    pub fn first_token(&self) -> u64 {
        self.tokens.0
    }

    /// Whether the present grant is under `token`, or has set it aside for a hand-off.
    pub fn has_token(&self, token: u64) -> bool {
        self.phase == Phase::Held && (self.tokens.0..=self.tokens.1).contains(&token)
    }

    /// How long each renewal makes the lease last.
    pub fn ttl(&self) -> Duration {
        self.service.get().ttl
    }

    /// How the hold ends if it is not renewed any more.
    pub fn expires_as(&self) -> LossReason {
        match self.service.get() {
            Service { renew: false, .. } => LossReason::NotRenewed,
            Service { max_hold: Some(max), .. } if self.valid_until >= self.granted_at.after(max) => {
                LossReason::MaxHold
            }
            _ => LossReason::Expired,
        }
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
        self.doubt.take_if(|until| *until <= now);
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

    fn contend(&mut self, now: Time, terms: Terms, wait: bool, service: Service, inbox: Inbox) {
        debug_assert_eq!(self.phase, Phase::Idle);
        self.start_attempt(terms, service);
        self.store_until = Time::ZERO;
        self.prev = None;
        self.waits = wait;
        self.inbox = inbox;
        self.ask(now);
    }

    fn resume(&mut self, now: Time, terms: Terms, secret: Terms, service: Service) {
        debug_assert_eq!(self.phase, Phase::Idle);
        self.start_attempt(terms, service);
        self.store_until = Time::ZERO;
        self.prev = None;
        self.waits = false;
        self.secret = Some(Box::new(secret));
        self.ask(now);
    }

    /// Whether the layout can give a held lock from one attempt to another.
    pub fn can_pass(&self) -> bool {
        self.protocol.pass(&self.terms, &self.terms).is_some()
    }

    fn start_attempt(&mut self, terms: Terms, service: Service) {
        self.terms = terms;
        self.service = service.into();
        self.secret = None;
        self.flights = [None; 4];
        self.ahead = u32::MAX;
        self.doubt = None;
        self.first_sent = None;
        self.published = false;
        self.broken = false;
        self.anchor = None;
        self.answered_write = None;
        self.ask_again = false;
        self.touched = false;
        self.placed = false;
        self.silent_since = None;
        self.trouble = None;
        self.retries = 0;
        self.wake = None;
        self.renew_at = None;
        self.extending = None;
        self.changing = None;
        self.repeated = false;
        self.told = false;
    }

    fn ask(&mut self, now: Time) {
        self.phase = Phase::Asking;
        self.wake = None;
        self.stop_renewing();
        self.silent_since.get_or_insert(now);
        // Two acquires of one attempt under way could not be told apart: whether the older still runs would be forgotten.
        self.ask_again = self.flight(Op::Acquire).is_some();
        if self.ask_again {
            return;
        }
        if self.is_forgotten(now) {
            let message = "this process was stopped, or the store silent, for so long that it is not known any more whether it was granted \
                           what it waited for; see whether the others went on";
            return self.fail(now, Error::new(Kind::Lost, "acquire", message));
        }
        self.asked_to_queue = self.waits && self.can_queue();
        self.first_sent.get_or_insert(now);
        if let Some(secret) = &self.secret {
            return match self.protocol.pass(secret, &self.terms) {
                Some(requests) => self.send(Op::Acquire, requests),
                None => self.fail(now, Error::unsupported("resume", "this layout cannot pass a held lock on")),
            };
        }
        let intent = Intent::Acquire {
            terms: self.terms.clone(),
            wait: self.asked_to_queue,
            prev: self.prev.as_deref().cloned(),
        };
        self.converse(now, now, Op::Acquire, Input::Begin(intent));
    }

    fn can_queue(&self) -> bool {
        match self.protocol.traits().push {
            Push::Inbox => self.inbox == Inbox::Live,
            // Where there is a queue at all, a place in it is kept by asking again.
            Push::Watch | Push::Hint | Push::Place => true,
            Push::None => false,
        }
    }

    fn has_place(&self) -> bool {
        self.protocol.traits().push == Push::Place
    }

    /// Whether the store may remember no more what became of this attempt's place, which it does for at least a ttl longer than is
    /// allowed here. Then the place must not be asked for again: it might be counted twice.
    fn is_forgotten(&self, now: Time) -> bool {
        self.place_forgotten_at().is_some_and(|at| now >= at)
    }

    /// From when on that is so.
    fn place_forgotten_at(&self) -> Option<Time> {
        let allowed = self.terms.ttl.saturating_mul(2).saturating_add(self.store_timeout);
        let answered = self.answered_write.or(self.first_sent).filter(|_| self.has_place());
        answered.map(|at| at.after(allowed))
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
                self.touched |= goes_on && op == Op::Acquire;
                self.send(op, requests);
            }
            Step::Wait(wait) => self.queued(now, sent, wait),
            Step::Done(verdict) => self.conclude(now, sent, op, verdict),
            Step::Ignore => {}
        }
    }

    fn send(&mut self, op: Op, requests: Requests) {
        self.seq += 1;
        self.flights[op as usize] = NonZeroU64::new(self.seq);
        let id = RequestId { attempt: self.terms.attempt, op, seq: self.seq };
        self.actions.push_back(Action::Send { id, requests });
    }

    /// Whether no acquire of this attempt can be executed any more.
    fn is_settled(&self) -> bool {
        self.doubt.is_none() && self.flight(Op::Acquire).is_none()
    }

    fn flight(&self, op: Op) -> Option<u64> {
        self.flights[op as usize].map(NonZeroU64::get)
    }

    fn answered(&mut self, now: Time, id: RequestId, sent: Time, answer: Answer<'_>) {
        if !self.awaits(id) {
            return;
        }
        self.flights[id.op as usize] = None;
        match answer {
            Answer::Replies(replies) => {
                if id.op == Op::Acquire {
                    self.answered_write = Some(sent);
                }
                self.converse(now, sent, id.op, Input::Reply(id.op, replies));
            }
            Answer::NotSent(error) => self.unanswered(now, id.op, error),
            Answer::Unknown { error, void_after } => {
                match id.op {
                    Op::Acquire => {
                        self.touched = true;
                        self.doubt = self.doubt.max(Some(void_after));
                    }
                    Op::Release => self.repeated = true,
                    Op::Renew => {
                        if let Some(changing) = &mut self.changing {
                            changing.doubt = changing.doubt.max(Some(void_after));
                        }
                    }
                    Op::Undo => {}
                }
                self.unanswered(now, id.op, error);
            }
        }
    }

    /// A write got no reply. What the store refused for good ends the attempt; everything else is asked again later.
    fn unanswered(&mut self, now: Time, op: Op, error: Error) {
        let hopeless = !may_pass(&error);
        let pause = self.pause(RETRY);
        match (op, self.phase) {
            (Op::Acquire, Phase::Asking) if hopeless => self.fail(now, error),
            (Op::Acquire, Phase::Undoing) if !self.touched && self.prev.is_none() => self.never_asked(),
            (Op::Acquire, Phase::Undoing) => self.answered_after_the_undo(now, None),
            (Op::Renew, Phase::Held | Phase::Confirming) => {
                self.remember(error);
                self.renew_at = Some(now.after(pause));
            }
            (Op::Acquire, Phase::Asking) => {
                self.remember(error);
                match self.is_silent_too_long(now) {
                    true => self.fail_in_silence(now),
                    false => self.wake = Some(now.after(pause)),
                }
            }
            (Op::Release, Phase::Releasing) | (Op::Undo, Phase::Undoing) => {
                self.wake = Some(now.after(pause));
            }
            _ => {}
        }
    }

    /// That a task of this process went away says nothing of the store.
    fn remember(&mut self, error: Error) {
        if error.kind() != Kind::Cancelled {
            self.trouble = Some(error);
        }
    }

    fn silent_until(&self) -> Option<Time> {
        self.silent_since.map(|since| since.after(self.store_timeout))
    }

    fn is_silent_too_long(&self, now: Time) -> bool {
        self.silent_until().is_some_and(|until| now >= until)
    }

    fn conclude(&mut self, now: Time, sent: Time, op: Op, verdict: Verdict) {
        match (op, self.phase) {
            (Op::Acquire, Phase::Asking | Phase::Waiting) => self.acquire_concluded(now, sent, verdict),
            // The push came first; but this made the lease last for the ttl, and giving it back must be tried for as long.
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

    fn acquire_concluded(&mut self, now: Time, sent: Time, verdict: Verdict) {
        if !matches!(verdict, Verdict::Failed(_) | Verdict::Late { .. }) {
            self.silent_since = None;
            self.trouble = None;
        }
        match verdict {
            Verdict::Granted(Grant { term: Term::Pushed(at), .. }) if !self.is_plausible(now, at) => self.ask(now),
            Verdict::Granted(grant) => self.granted(now, sent, grant),
            Verdict::Implausible => self.ask(now),
            Verdict::Held { remaining, at, prev } => {
                self.learn(sent, at);
                self.gave_back(prev);
                self.held_by_another(now, remaining);
            }
            Verdict::Late { at } => {
                self.learn(sent, Some(at));
                if self.is_silent_too_long(now) {
                    let late = "the store finds every request too late; see whether its clock runs evenly";
                    return self.fail(now, Error::new(Kind::Unavailable, "acquire", late));
                }
                self.ask(now);
            }
            Verdict::Failed(error) => {
                self.touched = true;
                self.unanswered(now, Op::Acquire, error);
            }
            Verdict::Gone(_) if self.secret.is_some() => {
                let message = "the secret no longer holds the lock: it was resumed already, or its time ended";
                self.fail(now, Error::new(Kind::NotOwned, "resume", message));
            }
            Verdict::Gone(_) => {
                let message = "the store's reply makes no sense for this layout: a grant without a token; see what answers at \
                               that address";
                self.fail(now, Error::new(Kind::Protocol, "acquire", message));
            }
            _ => {
                self.fail(now, Error::new(Kind::Internal, "acquire", "an acquire ended with another verdict's answer"))
            }
        }
    }

    fn learn(&mut self, sent: Time, at: Option<StoreTime>) {
        if let Some(at) = at {
            self.actions.push_back(Action::Learn { sent, at });
        }
    }

    /// An answer to the acquire came: whatever it was to give back is given back.
    fn gave_back(&mut self, outcome: Option<ReleaseOutcome>) {
        if self.prev.take().is_some() {
            self.tell_released(outcome.unwrap_or(ReleaseOutcome::Unknown));
        }
    }

    /// What became of the earlier attempt, once the acquire that was to give it back is being undone. The undo gives back the
    /// same and may have come first; so only that it was the holder until then says anything.
    fn gave_back_late(&mut self, outcome: Option<ReleaseOutcome>) {
        if self.prev.is_some() {
            self.tell_released(outcome.filter(|o| *o == ReleaseOutcome::Released).unwrap_or(ReleaseOutcome::Unknown));
        }
    }

    fn held_by_another(&mut self, now: Time, remaining: Duration) {
        if !self.waits {
            self.actions.push_back(Action::Refused);
            return self.finish(now);
        }
        if self.can_queue() && !self.asked_to_queue {
            return self.ask(now);
        }
        if self.is_hinted() && self.ask_again {
            return self.ask(now);
        }
        self.phase = Phase::Waiting;
        self.ahead = u32::MAX;
        let pause = match (self.protocol.traits().push, self.inbox) {
            (Push::Inbox | Push::Hint, Inbox::Closed) => {
                self.actions.push_back(Action::OpenInbox);
                self.jittered(self.terms.claim)
            }
            (Push::Hint, Inbox::Live) => self.jittered(self.terms.claim),
            _ => self.poll_pause(),
        };
        self.wake = Some(now.after(self.jittered(remaining).min(pause)));
    }

    fn is_hinted(&self) -> bool {
        self.protocol.traits().push == Push::Hint
    }

    /// The next pause of a waiter whom nobody tells of anything.
    fn poll_pause(&mut self) -> Duration {
        let Retry { min, max } = self.service.get().retry;
        self.pause((min, max))
    }

    fn queued(&mut self, now: Time, sent: Time, wait: Wait) {
        if !matches!(self.phase, Phase::Asking) {
            // Overtaken by the push for this very place; or the hold is lost already, and this place is a new one.
            self.placed = true;
            if self.phase == Phase::Undoing {
                self.answered_after_the_undo(now, wait.prev);
            }
            return;
        }
        self.learn(sent, wait.at);
        self.gave_back(wait.prev);
        self.ahead = wait.position;
        self.touched = true;
        self.silent_since = None;
        if let Some(at) = wait.at {
            self.anchor = Some((sent, at));
        }
        if self.ask_again {
            return self.ask(now);
        }
        self.phase = Phase::Waiting;
        if self.has_place() {
            self.lasts(sent, now, self.terms.ttl);
        }
        match self.inbox {
            Inbox::Closed if self.is_hinted() || self.has_place() => self.actions.push_back(Action::OpenInbox),
            Inbox::Unavailable if self.is_hinted() || self.has_place() => {
                let pause = self.poll_pause();
                self.wake = Some(now.after(self.jittered(wait.remaining).min(pause)));
                return;
            }
            _ => {}
        }
        self.retries = 0;
        let patience = match wait.at {
            Some(_) => self.patience(wait.remaining, wait.position),
            // Grants that are no claims need no watching in the meantime.
            None => self.jittered(wait.remaining),
        };
        self.wake = Some(now.after(patience));
    }

    /// How long whoever has `position` others ahead does not look after a holder whose lease lasts for `remaining`: until that is over,
    /// and a little longer the more come before it.
    ///
    /// While claims follow each other, each an eighth of one more: one is enough to see a claim run out, and if all of a long queue
    /// looked, each hand-off would cost as many requests as there are waiters. A lease that is longer than any claim ends at most
    /// once, so then it is an eighth for each doubling of the place: all of a process may have died, at the head of the queue.
    fn patience(&self, remaining: Duration, position: u32) -> Duration {
        let eighth = self.terms.claim / 8;
        if self.is_hinted() {
            // In another library's queue, whoever does not show itself is thrown out.
            let until = remaining.min(self.terms.claim);
            return self.jittered(until.saturating_add(eighth.saturating_mul(position.min(1 << 20))));
        }
        let place = if remaining > crate::options::CLAIM {
            eighth * position.saturating_add(1).ilog2()
        } else {
            eighth.saturating_mul(position).min(self.terms.ttl)
        };
        let until_over = remaining.saturating_add(margin(remaining)).min(LONGEST_PATIENCE);
        let apart = self.terms.claim - self.jittered(self.terms.claim);
        until_over.saturating_add(place).saturating_add(apart)
    }

    fn granted(&mut self, now: Time, sent: Time, grant: Grant) {
        self.touched = true;
        // A push may overtake the reply to the yield. The lease given back was still ours when that was executed, if it is now.
        let overtaken = matches!(grant.term, Term::Pushed(_)) && now < self.given_until;
        self.gave_back(grant.prev.or(overtaken.then_some(ReleaseOutcome::Released)));
        let (from, lease) = match grant.term {
            Term::FromRequest => (sent, self.terms.ttl),
            Term::ForGood => (now, self.terms.ttl),
            Term::Pushed(at) => (self.local_time_of(now, at), self.terms.claim),
        };
        self.tokens = (grant.first, grant.last);
        self.used = grant.first;
        self.lasts(from, now, lease);
        self.valid_until = from.after(lease).before(margin(lease));
        if self.valid_until <= now {
            return self.ask(now);
        }
        self.granted_at = now;
        if self.valid_until.since(now) < lease / 2 {
            self.phase = Phase::Confirming;
            self.wake = None;
            return self.renew(now);
        }
        self.hold(now, from, lease);
    }

    /// Remembers until when the store may see a lease of this attempt, `lease` after `now` at most.
    fn lasts(&mut self, from: Time, now: Time, lease: Duration) {
        self.store_until = self.store_until.max(from.max(now).after(lease).after(margin(lease)));
    }

    /// When, on our clock, the store's clock stood at `at`: never later than it really was.
    ///
    /// A push has no sending time. It is dated from an earlier request that the store answered with its time; drift
    /// stretches or shrinks the distance, whichever makes it earlier. Without such a request the grant came after the
    /// attempt's first sending.
    fn local_time_of(&self, now: Time, at: StoreTime) -> Time {
        let Some((sent, anchor)) = self.anchor else { return self.first_sent.unwrap_or(now).min(now) };
        let distance = at.micros_since(anchor);
        let span = Duration::from_micros(distance.unsigned_abs());
        let drift = span / DRIFT_DIVISOR;
        let dated = if distance >= 0 { sent.after(span - drift) } else { sent.before(span + drift) };
        dated.min(now)
    }

    /// Whether a grant that was pushed as of `at` may be believed. Whoever may publish can say anything to whom it knows the attempt
    /// of; so only the first push counts, as that is what publishes the attempt, and only if the store's clock did not jump since an
    /// answer told it.
    fn is_plausible(&mut self, now: Time, at: StoreTime) -> bool {
        const FAR: Duration = Duration::from_secs(24 * 60 * 60);
        let is_near = |(sent, anchor): (Time, StoreTime)| at <= anchor.after(now.since(sent)).after(FAR);
        !std::mem::replace(&mut self.published, true) && self.anchor.is_none_or(is_near)
    }

    fn hold(&mut self, now: Time, from: Time, lease: Duration) {
        self.phase = Phase::Held;
        self.secret = None;
        self.wake = None;
        self.silent_since = None;
        self.trouble = None;
        self.retries = 0;
        self.actions.push_back(Action::Granted { first: self.tokens.0, last: self.tokens.1 });
        self.schedule_renewal(from, lease);
        self.renew_if_due(now);
    }

    /// The next renewal of a lease that began at `from` and lasts for `lease`.
    fn schedule_renewal(&mut self, from: Time, lease: Duration) {
        let Service { ttl, max_hold, .. } = self.service.get();
        let stops = max_hold.map(|max| self.granted_at.after(max));
        self.renew_at = if self.service.renew {
            let aligned = due_after(from, lease / 3);
            stops.is_none_or(|stop| aligned < stop).then_some(aligned)
        } else {
            // A hand-on inside the process takes a moment off; only a real difference is worth a request.
            (lease < ttl - ttl / 16).then_some(from)
        };
    }

    fn renew_if_due(&mut self, now: Time) {
        if self.renew_at.is_some_and(|at| now >= at) && self.flight(Op::Renew).is_none() {
            match self.may_renew(now) {
                true => self.renew(now),
                false => self.renew_at = None,
            }
        }
    }

    /// Whether the hold may be renewed yet. A renewal that is due was due before the end of that, but the answer that said when may
    /// have come late.
    fn may_renew(&self, now: Time) -> bool {
        let is_over = |max| now >= self.granted_at.after(max);
        let is_asked_for = self.phase == Phase::Confirming || self.extending.is_some() || self.changing.is_some();
        is_asked_for || !self.service.get().max_hold.is_some_and(is_over)
    }

    fn renew(&mut self, now: Time) {
        self.renew_at = None;
        let ttl = self.extending.map_or_else(|| self.ttl(), Span::get);
        self.renewing = Span::of(ttl);
        self.lasts(now, now.after(self.store_timeout), ttl);
        let terms = self.terms.clone();
        match &self.changing {
            Some(changing) => {
                let change = Change { terms, token: self.tokens.0, ttl, units: changing.units };
                let step = self.protocol.change(change);
                self.follow(now, now, Op::Renew, false, step);
            }
            None => self.converse(now, now, Op::Renew, Input::Begin(Intent::Renew { terms, ttl })),
        }
    }

    /// The hold ends: a renewal still under way does not count any more.
    fn stop_renewing(&mut self) {
        self.renew_at = None;
        self.flights[Op::Renew as usize] = None;
        self.stop_extending();
    }

    fn stop_extending(&mut self) {
        if self.extending.take().is_some() {
            self.actions.push_back(Action::Extended(false));
        }
        if self.changing.take().is_some() {
            self.actions.push_back(Action::Changed(None));
        }
    }

    fn renew_concluded(&mut self, now: Time, sent: Time, verdict: Verdict) {
        let ttl = self.renewing.get();
        match verdict {
            Verdict::Renewed | Verdict::Changed(_) => {
                self.trouble = None;
                self.retries = 0;
                // A change may have left before that.
                self.broken &= matches!(verdict, Verdict::Changed(_));
                self.lasts(sent, now, ttl);
                self.valid_until = self.valid_until.max(sent.after(ttl).before(margin(ttl)));
                // An answer that comes after the lease's end is no yes: the loss will be told, and with it that nothing was got.
                let in_force = now < self.valid_until;
                match verdict {
                    Verdict::Changed(Some(_)) if !in_force => {}
                    Verdict::Changed(token) => self.changed(now, token),
                    _ => {}
                }
                if in_force && self.extending.take_if(|wanted| wanted.get() == ttl).is_some() {
                    self.service = Service { ttl, ..self.service.get() }.into();
                    self.actions.push_back(Action::Extended(true));
                }
                match self.phase {
                    Phase::Confirming if self.valid_until <= now => self.ask(now),
                    Phase::Confirming => self.hold(now, sent, ttl),
                    _ if self.extending.is_some() || self.broken => self.renew(now),
                    _ => {
                        self.schedule_renewal(sent, ttl);
                        // What was refused while an earlier copy may still run is asked for again when that is over.
                        let doubt = self.changing.as_ref().and_then(|changing| changing.doubt);
                        self.renew_at = [self.renew_at, doubt].into_iter().flatten().min();
                    }
                }
            }
            Verdict::Late { at } => {
                self.learn(sent, Some(at));
                self.renew_at = Some(now.after(self.pause(RETRY)));
            }
            Verdict::Gone(_) if self.phase == Phase::Confirming => self.ask(now),
            Verdict::Gone(_) if self.broken => self.lose(now, LossReason::Broken),
            Verdict::Gone(_) => self.lose(now, LossReason::Gone),
            Verdict::Failed(error) => {
                if !may_pass(&error) {
                    self.stop_extending();
                }
                self.trouble = Some(error);
                self.renew_at = Some(now.after(self.pause(RETRY)));
            }
            _ => self.renew_at = Some(now.after(self.pause(RETRY))),
        }
    }

    fn serve(&mut self, now: Time, service: Service) {
        self.stop_extending();
        if self.service.get() == service && service.max_hold.is_none() {
            return;
        }
        self.service = service.into();
        self.granted_at = now;
        if self.phase == Phase::Held {
            let left = self.valid_until.since(now);
            // What is left was promised to the task before; a shorter lease of the next one begins to be renewed at once.
            self.schedule_renewal(now, left.min(service.ttl));
            self.renew_if_due(now);
        }
    }

    fn extend(&mut self, now: Time, ttl: Duration) {
        if self.phase != Phase::Held {
            return self.actions.push_back(Action::Extended(false));
        }
        // Whoever asked before and has no answer yet has what it wants with the longer of the two.
        self.extending = self.extending.max(Some(Span::of(ttl)));
        self.renew_unless_changing(now);
    }

    fn change(&mut self, now: Time, units: u32) {
        if self.phase != Phase::Held || self.changing.is_some() {
            return self.actions.push_back(Action::Changed(None));
        }
        self.changing = Some(Box::new(Changing { units, doubt: None }));
        self.renew(now);
    }

    fn changed(&mut self, now: Time, token: Option<u64>) {
        let in_doubt = |changing: &Changing| changing.doubt.is_some_and(|until| now < until);
        if token.is_none() && self.changing.as_deref().is_some_and(in_doubt) {
            return;
        }
        if let Some(token) = token {
            self.tokens = (token, token);
        }
        if self.changing.take().is_some() {
            self.actions.push_back(Action::Changed(token));
        }
    }

    /// Two changes under way could not be told apart: whether the older still runs would be forgotten.
    fn renew_unless_changing(&mut self, now: Time) {
        if self.changing.is_none() || self.flight(Op::Renew).is_none() {
            self.renew(now);
        }
    }

    fn verify(&mut self, now: Time) {
        if self.phase == Phase::Held {
            self.renew_unless_changing(now);
        } else if self.phase == Phase::Waiting {
            self.ask(now);
        }
    }

    fn lose(&mut self, now: Time, reason: LossReason) {
        let known_gone = matches!(reason, LossReason::Gone | LossReason::Broken);
        self.actions.push_back(Action::Lost(reason));
        self.touched = !known_gone || self.placed || !self.is_settled();
        self.finish(now);
    }

    fn release(&mut self, now: Time, used: u64) {
        if self.phase != Phase::Held {
            // It was lost in the same moment: whoever gives it back is answered all the same.
            return self.actions.push_back(Action::Released(ReleaseOutcome::Expired));
        }
        self.phase = Phase::Releasing;
        self.stop_renewing();
        self.told = false;
        self.used = used;
        // An acquire that is still under way may be executed after the release, and be answered before it.
        self.touched = !self.is_settled();
        self.silent_since = Some(now);
        self.retries = 0;
        self.send_release(now);
    }

    fn export(&mut self, now: Time, secret: Terms, used: u64) {
        if self.phase == Phase::Held {
            self.lasts(now, now.after(self.store_timeout), secret.ttl);
            self.secret = Some(Box::new(secret));
        }
        self.release(now, used);
    }

    fn send_release(&mut self, now: Time) {
        self.wake = None;
        let passed = self.secret.as_ref().map(|secret| self.protocol.pass(&self.terms, secret));
        if let Some(passed) = passed {
            return match passed {
                Some(requests) => self.send(Op::Release, requests),
                None => self.retract(now),
            };
        }
        let intent = Intent::Release { terms: self.terms.clone(), used: self.used };
        self.converse(now, now, Op::Release, Input::Begin(intent));
    }

    fn release_concluded(&mut self, now: Time, verdict: Verdict) {
        if let Verdict::Failed(error) = verdict {
            if may_pass(&error) {
                return self.unanswered(now, Op::Release, error);
            }
            self.touched = true;
            return self.retract(now);
        }
        let outcome = match verdict {
            Verdict::Released(ReleaseOutcome::Released) => ReleaseOutcome::Released,
            // An earlier copy of this release may be what ended the hold.
            Verdict::Released(_) if self.repeated => ReleaseOutcome::Unknown,
            Verdict::Released(outcome) => outcome,
            _ => ReleaseOutcome::Unknown,
        };
        self.touched |= self.placed && outcome != ReleaseOutcome::Released;
        self.tell_released(outcome);
        self.finish(now);
    }

    /// Whether the store did as it was told is not known, and will not be: whoever gave back need not wait any more. A secret
    /// that nobody was told would keep the lock from everybody.
    fn retract(&mut self, now: Time) {
        self.tell_released(ReleaseOutcome::Unknown);
        if let Some(secret) = self.secret.take() {
            self.touched = true;
            self.prev = Some(Box::new(Previous { terms: *secret, used: self.used }));
        }
        self.finish(now);
    }

    fn tell_released(&mut self, outcome: ReleaseOutcome) {
        if !std::mem::replace(&mut self.told, true) {
            self.actions.push_back(Action::Released(outcome));
        }
    }

    fn hand_back_and_contend(&mut self, now: Time, attempt: AttemptId, used: u64, service: Service) {
        if !self.is_certain(now) || !self.protocol.traits().yields {
            return self.release(now, used);
        }
        self.stop_extending();
        let given_until = self.valid_until;
        let terms = Terms { attempt, ttl: service.ttl, claim: claim(service.ttl), ..self.terms.clone() };
        let given = std::mem::replace(&mut self.terms, terms.clone());
        self.start_attempt(terms, service);
        self.prev = Some(Box::new(Previous { terms: given, used }));
        self.given_until = given_until;
        self.waits = true;
        self.touched = true;
        self.ask(now);
    }

    fn cancel(&mut self, now: Time) {
        match self.phase {
            // A release is on its way already.
            Phase::Idle | Phase::Undoing | Phase::Releasing => {}
            _ => {
                self.stop_extending();
                self.finish(now);
            }
        }
    }

    fn fail(&mut self, now: Time, error: Error) {
        self.actions.push_back(Action::Failed(error));
        self.finish(now);
    }

    /// The store has not answered for too long.
    fn fail_in_silence(&mut self, now: Time) {
        let error = self.trouble.take().unwrap_or_else(silent_store);
        self.fail(now, error);
    }

    /// Ends the attempt: at once when nothing can be left at the store, else by undoing it.
    fn finish(&mut self, now: Time) {
        if self.flight(Op::Acquire).is_none() {
            // Whoever gave it back need not wait until the undo is answered.
            self.gave_back_late(None);
        }
        self.wake = None;
        self.stop_renewing();
        self.silent_since = None;
        if self.touched || self.flight(Op::Acquire).is_some() {
            self.phase = Phase::Undoing;
            self.retries = 0;
            return self.undo(now);
        }
        self.end();
    }

    fn end(&mut self) {
        self.phase = Phase::Idle;
        self.wake = None;
        self.gave_back_late(None);
        self.prev = None;
        self.actions.push_back(Action::Ended);
    }

    fn undo(&mut self, now: Time) {
        self.wake = None;
        self.ask_again = false;
        // Whatever can no longer run when this leaves is covered by it.
        self.doubt.take_if(|until| *until <= now);
        let intent = Intent::Undo { terms: self.terms.clone(), prev: self.prev.as_deref().cloned() };
        self.converse(now, now, Op::Undo, Input::Begin(intent));
    }

    /// No acquire of this attempt ever left, so there is nothing to undo.
    fn never_asked(&mut self) {
        if self.has_place() {
            self.actions.push_back(Action::Parted(None));
        }
        self.end();
    }

    /// Whatever the acquire did was done before or after the undo; only asking once more makes sure.
    fn answered_after_the_undo(&mut self, now: Time, prev: Option<ReleaseOutcome>) {
        self.gave_back_late(prev);
        self.undo_again(now);
    }

    /// Something may have happened since the undo in flight was sent.
    fn undo_again(&mut self, now: Time) {
        if self.flight(Op::Undo).is_some() {
            self.ask_again = true;
        } else {
            self.undo(now);
        }
    }

    fn undo_concluded(&mut self, now: Time, verdict: Verdict) {
        if let Verdict::Failed(error) = verdict {
            match may_pass(&error) {
                true => self.wake = Some(now.after(self.pause(RETRY))),
                false => self.end(),
            }
            return;
        }
        let granted = match verdict {
            Verdict::Granted(grant) => Some(grant.first),
            _ => None,
        };
        if self.has_place() && (granted.is_some() || !self.is_forgotten(now)) {
            self.actions.push_back(Action::Parted(granted));
        }
        let is_answered = self.flight(Op::Acquire).is_none();
        if is_answered {
            self.prev = None;
        }
        if self.ask_again {
            return self.undo(now);
        }
        if !is_answered {
            return;
        }
        match self.doubt {
            Some(until) => {
                // Most often it is only a little slower than its undo. What it does meanwhile keeps the lock from everybody.
                let soon = now.after(RETRY.0.saturating_mul(1 << (2 * self.retries.min(8))));
                self.retries = self.retries.saturating_add(1);
                self.wake = Some(soon.min(until));
            }
            None => self.end(),
        }
    }

    fn pushed(&mut self, now: Time, event: &StoreEvent) {
        match event {
            StoreEvent::Granted { attempt, .. } if *attempt == self.terms.attempt => match self.phase {
                Phase::Asking | Phase::Waiting => self.heard(now, event),
                Phase::Undoing => self.undo_again(now),
                _ => {}
            },
            StoreEvent::Broken { attempt } if *attempt == self.terms.attempt => match self.phase {
                Phase::Held | Phase::Confirming => {
                    self.broken = true;
                    self.renew_unless_changing(now);
                }
                _ => {}
            },
            StoreEvent::Broken { attempt } if self.prev.as_ref().is_some_and(|prev| prev.terms.attempt == *attempt) => {
                self.given_until = Time::ZERO;
            }
            StoreEvent::Next { tail } if *tail == self.terms.attempt.tail() && self.phase == Phase::Waiting => {
                let claim_over = now.after(self.patience(crate::options::CLAIM, 0));
                self.wake = self.wake.map(|at| at.min(claim_over));
            }
            StoreEvent::Dropped => match self.phase {
                Phase::Waiting => self.ask(now),
                Phase::Asking => self.ask_again = true,
                _ => {}
            },
            StoreEvent::Changed { path } if self.is_hinted() => self.hinted(now, path),
            StoreEvent::Changed { .. } | StoreEvent::Gone { .. }
                if matches!(self.phase, Phase::Asking | Phase::Waiting) =>
            {
                self.heard(now, event);
            }
            _ => {}
        }
    }

    /// Somebody gave the lock back, or may have. It proves nothing.
    fn hinted(&mut self, now: Time, channel: &str) {
        match self.phase {
            _ if self.channel().as_deref() != Some(channel) => {}
            Phase::Waiting => self.ask(now),
            // The answer on its way may be older.
            Phase::Asking => self.ask_again = true,
            _ => {}
        }
    }

    /// An event has no sending time: what it grants counts from the last acquire that was answered.
    fn heard(&mut self, now: Time, event: &StoreEvent) {
        let sent = self.answered_write.or(self.first_sent).unwrap_or(now);
        self.converse(now, sent, Op::Acquire, Input::Event(event));
    }

    fn inbox_changed(&mut self, now: Time, inbox: Inbox) {
        self.inbox = inbox;
        match self.phase {
            Phase::Waiting if inbox != Inbox::Closed => self.ask(now),
            // A push for the place that the reply still on its way tells of may have been missed.
            Phase::Asking if inbox == Inbox::Live => self.ask_again = true,
            _ => {}
        }
    }

    fn tick(&mut self, now: Time) {
        match self.phase {
            Phase::Held if now >= self.valid_until => {
                let reason = self.expires_as();
                self.lose(now, reason);
            }
            Phase::Confirming if now >= self.valid_until => self.ask(now),
            Phase::Held | Phase::Confirming => self.renew_if_due(now),
            Phase::Asking if self.is_silent_too_long(now) => self.fail_in_silence(now),
            Phase::Releasing if now >= self.store_until => self.retract(now),
            Phase::Releasing if self.secret.is_some() && self.is_silent_too_long(now) => self.retract(now),
            Phase::Releasing if self.is_silent_too_long(now) => {
                self.tell_released(ReleaseOutcome::Unknown);
                self.silent_since = None;
                self.tick(now);
            }
            Phase::Undoing if now >= self.forgotten_at() => self.end(),
            _ => self.retry_if_due(now),
        }
    }

    fn retry_if_due(&mut self, now: Time) {
        if self.wake.is_none_or(|at| now < at) {
            return;
        }
        match self.phase {
            Phase::Asking | Phase::Waiting => self.ask(now),
            Phase::Releasing => self.send_release(now),
            Phase::Undoing => self.undo(now),
            _ => {}
        }
    }

    /// When the store will have forgotten this attempt by itself, however often undoing it failed.
    fn forgotten_at(&self) -> Time {
        let asked = self.doubt.or(self.first_sent).unwrap_or(Time::ZERO);
        self.store_until.max(asked.after(self.store_timeout).after(self.terms.ttl))
    }

    /// The next of a row of growing pauses.
    fn pause(&mut self, (first, longest): (Duration, Duration)) -> Duration {
        let pause = first.saturating_mul(1 << self.retries.min(16)).min(longest);
        self.retries = self.retries.saturating_add(1);
        self.jittered(pause)
    }

    /// Up to an eighth less than `duration`, differing from attempt to attempt so that waiters do not ask in step.
    fn jittered(&self, duration: Duration) -> Duration {
        let mixed = (self.terms.attempt.0 as u64 ^ self.seq).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // A lock may be held without an end.
        duration - duration / (8 * 256) * u32::from((mixed >> 56) as u8)
    }

    /// A copy in the same state, for those who explore what could happen next.
    pub fn duplicate(&self) -> Self {
        Session {
            protocol: self.protocol.duplicate(),
            terms: self.terms.clone(),
            prev: self.prev.clone(),
            secret: self.secret.clone(),
            trouble: self.trouble.clone(),
            changing: self.changing.clone(),
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
        (attempt, self.terms.ttl, self.terms.claim, self.terms.fair, self.service, self.waits, self.inbox).hash(state);
        (self.ask_again, self.touched, self.placed, self.told, self.repeated, self.extending, self.retries.min(16))
            .hash(state);
        let prev = self.prev.as_ref();
        let prev = prev.map(|p| (view.attempt(p.terms.attempt), view.token(p.used), view.ahead(self.given_until)));
        prev.hash(state);
        self.secret.as_ref().map(|secret| (view.attempt(secret.attempt), secret.ttl)).hash(state);
        (self.flight(Op::Acquire).is_some(), self.published, self.broken).hash(state);
        (ahead(self.wake), ahead(self.doubt)).hash(state);
        (view.ahead(self.store_until), view.ahead(self.forgotten_at()), ahead(self.place_forgotten_at())).hash(state);
        if matches!(self.phase, Phase::Asking | Phase::Releasing) {
            (self.asked_to_queue, ahead(self.silent_until())).hash(state);
        }
        if matches!(self.phase, Phase::Asking | Phase::Waiting | Phase::Confirming) {
            let dated = match self.anchor {
                Some((sent, at)) => (true, view.lag(sent, at)),
                None => (false, self.first_sent.map_or(0, |at| view.ago(at))),
            };
            dated.hash(state);
            let watches = self.protocol.traits().push == Push::Watch;
            self.answered_write.filter(|_| watches).map(|at| view.ago(at)).hash(state);
        }
        if matches!(self.phase, Phase::Held | Phase::Confirming) {
            (view.token(self.tokens.0), view.token(self.tokens.1)).hash(state);
            (self.flight(Op::Renew).map(|_| self.renewing), ahead(self.renew_at)).hash(state);
            view.ahead(self.valid_until).hash(state);
            self.service.get().max_hold.map(|max| view.ahead(self.granted_at.after(max))).hash(state);
        }
        let changing = self.changing.as_ref();
        changing.map(|changing| (changing.units, changing.doubt.map(|until| view.ahead(until)))).hash(state);
        if self.phase == Phase::Releasing {
            (view.token(self.used), self.flight(Op::Release).is_some()).hash(state);
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
            .field("valid_until", &self.valid_until)
            .field("flights", &self.flights)
            .finish_non_exhaustive()
    }
}

fn silent_store() -> Error {
    let message = "the store did not answer in time; see whether it runs and is reachable";
    Error::new(Kind::Unavailable, "acquire", message)
}

/// Whether asking again later may help.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), Kind::Unavailable | Kind::Internal | Kind::Cancelled)
}

/// When a renewal is due `interval` after `from`. Locks taken one after another renew together: due times fall on common
/// ticks, never later than wanted.
fn due_after(from: Time, interval: Duration) -> Time {
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
        let terms = Terms { name, attempt, inbox, ttl: TTL, claim: claim(TTL), card, fair: false };
        let service = Service { ttl: TTL, renew: true, max_hold: None, retry: Retry::DEFAULT };
        let now = Time::from_nanos(1_000_000_000);
        session.handle(now, Event::Acquire { terms, wait: true, service, inbox: Inbox::Live });
        let Some(Action::Send { id, .. }) = session.poll_action() else { panic!("nothing is asked") };
        (session, id, now)
    }

    /// When a waiter asks again that was queued with `ahead` others ahead and `remaining` milliseconds left to the holder.
    fn asks_again_after(remaining: i64, ahead: i64) -> Duration {
        let (mut session, id, now) = asking();
        let queued = [1, 5, remaining * 1000, ahead, 0].map(Reply::Int).to_vec();
        let replies = [Reply::List(queued)];
        session.handle(now, Event::Reply { id, sent: now, answer: Answer::Replies(&replies) });
        session.poll_timeout().unwrap().since(now)
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
