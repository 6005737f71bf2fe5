//! One client's engine: its locks, its inbox, its timer queue, and the two ways to perform what they want done: inline
//! in the caller's thread or task, or in the background.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use lockwright_machines::gate;
use lockwright_machines::machine::{Demand, PARTING, Waiting, ahead_of_each};
use lockwright_machines::queue::{Ask, OwnerId, TaskId};
use lockwright_machines::rank::Rank;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::entries::{Entries, RECENT};
use super::entry::{Contents, Effects, Entry, Outbound, Wanted};
use super::flusher::{BatchKind, Flusher, distribute, joined};
use super::holder::held_by;
use super::line_up::Line;
use super::notice::{self, Counters, Silence};
use super::owners::{self, Waits};
use super::road::Road;
use super::timer_queue::TimerQueue;
use super::turnstile::Turnstile;
use super::wait::{Settled, Waiter};
use crate::error::{Error, Kind, Result};
use crate::guarantee::Guarantees;
use crate::lease::{Card, Inspection};
use crate::options::{AcquireOptions, ConnectOptions};
use crate::platform::clock;
use crate::platform::fence::{self, Fence};
use crate::platform::fork::{self, Generational};
use crate::platform::mutex::locked;
use crate::platform::os::host_name;
use crate::platform::random;
use crate::platform::runtime;
use crate::protocol::{AttemptId, Channel, InboxId, Inquiry, Layout, Push, Reply, Requests, StoreEvent};
use crate::session::{Inbox, Service};
use crate::stores::{Answered, Outcome, Sink, Store, Subscription, Topic, Work};
use crate::time::Time;

/// How long something is held before its client listens whether it is broken: most is not held for that long, and a
/// subscription is a connection more.
const A_WHILE: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(super) options: ConnectOptions,
    /// Which copy of this process' memory it belongs to.
    pub(super) image: u64,
    /// Drawn at the first use, so that copies of a process which has only connected have one each.
    inbox_id: OnceLock<InboxId>,
    inbox: AtomicU8,
    inbox_wanted: AtomicBool,
    alive_until: AtomicU64,
    session_wanted: AtomicBool,
    heard: Mutex<Heard>,
    hints_refused: AtomicBool,
    listeners: Mutex<SmallVec<[AbortHandle; 1]>>,
    host: String,
    /// The last label and its card: most locks of a client have the same.
    card: Mutex<Option<(String, Arc<str>)>>,
    next_task: AtomicU64,
    next_slot: AtomicU64,
    /// Who gets in line before whom, while the inbox is being opened.
    pub(super) line_up: Line,
    /// It will be looked whether something is held for a while.
    watched: AtomicBool,
    /// Of which other numbers of permits was said that they are others.
    permits: Mutex<VecDeque<(Arc<str>, u32)>>,
    entries: Mutex<Entries<Entry>>,
    pub(crate) timer_queue: TimerQueue,
    renewals: Flusher,
    returns: Flusher,
    asks: Flusher,
    /// What tasks pass before they ask the store for a lock.
    pub(crate) turnstile: Turnstile,
    pub(super) closed: AtomicBool,
    drained: AtomicBool,
    /// Notified of whatever happens to an entry once the client is drained or closed.
    pub(super) happened: Notify,
    pub(crate) counters: Counters,
    pub(crate) silence: Silence,
    pub(crate) waits: Waits,
    /// What was last seen of a holder, for those whose time is over together.
    seen: Mutex<Option<Seen>>,
    /// For those who need to outlive a borrow: the background's work, and the store's way to us.
    me: Weak<Engine>,
    /// As if there were no randomness to be had.
    #[cfg(test)]
    dry: AtomicBool,
}

/// What this client listens to.
#[derive(Default)]
struct Heard {
    /// For the contender of which slot; [`INBOX`] for all.
    by_slot: HashMap<u64, Subscription>,
    /// What is yet to be run in the background for them.
    works: SmallVec<[Work; 1]>,
}

/// No slot has this number, or the next.
const INBOX: u64 = 0;
const SESSION: u64 = u64::MAX;

/// Who holds a lock, as the store said.
#[derive(Debug)]
struct Seen {
    key: Arc<str>,
    at: Time,
    /// `None` until the store answers.
    who: Option<Arc<str>>,
}

/// How an acquisition is to be made, once its options are checked.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) options: AcquireOptions,
    /// Who wants it, where the face says so.
    pub(crate) owner: Option<OwnerId>,
    /// Whoever cannot be served in order is served all the same.
    pub(crate) prefers_order: bool,
    /// How it goes on with a store that does not answer, where it only tries.
    pub(crate) trial: Trial,
    /// When its time is over the error does not say who holds the lock.
    pub(crate) quiet: bool,
    /// Somebody else than its owner may release what it gets.
    pub(crate) lenient: bool,
}

impl Wish {
    pub(crate) fn new(options: AcquireOptions, owner: Option<OwnerId>) -> Self {
        Wish { options, owner, prefers_order: false, trial: Trial::AT_ONCE, quiet: false, lenient: false }
    }
}

/// How a lock is tried that is wanted for something larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// When it is given up, besides after `store_timeout`.
    pub(crate) until: Option<Time>,
    /// That there is nobody at the address is an answer.
    pub(crate) hurries: bool,
}

impl Trial {
    /// Its caller only tries.
    pub(crate) const AT_ONCE: Trial = Trial { until: None, hurries: true };

    /// Its caller waits for as long as `timeout` says, which is over at `deadline`.
    pub(crate) fn within(timeout: Option<Duration>, deadline: Option<Time>) -> Self {
        match timeout {
            Some(Duration::ZERO) => Trial::AT_ONCE,
            _ => Trial { until: deadline, hurries: false },
        }
    }
}

/// The engines of this process that may hold something.
fn engines() -> &'static Mutex<Vec<Weak<Engine>>> {
    static ENGINES: OnceLock<Generational<Mutex<Vec<Weak<Engine>>>>> = OnceLock::new();
    ENGINES.get_or_init(|| Generational::new(Arc::default())).get_or_make(Arc::default)
}

/// Says that this process goes on from a copy of its memory, which others may go on from too: a snapshot of a virtual
/// machine or a checkpoint that was restored, perhaps more than once. A host that knows so calls it once, before
/// anything else uses this library.
///
/// Every client then behaves as in a forked child: it dials anew, under an inbox of its own, at its next use. A guard
/// made before is not believed, since the copy it was made in, or another one restored from it, may go on holding the
/// lock: it is told `closed`, using it is `forked`, and nothing is sent for it. What nobody else gives back so ends
/// with its lease. Whoever waits is refused with `forked`.
///
/// Nothing else is needed for locks acquired afterwards: attempt ids are never kept in memory, so two copies do not
/// have the same. What was held or under way when the copy was made is cloned with it, and without this call both
/// believe in it.
pub fn restored() {
    fork::restored();
    let now = fork::image();
    let before: Vec<_> = locked(engines()).iter().filter_map(Weak::upgrade).collect();
    before.iter().filter(|engine| engine.image != now).for_each(|engine| engine.forsake());
}

impl Engine {
    pub(crate) fn new(store: Arc<dyn Store>, options: ConnectOptions) -> Result<Arc<Self>> {
        // A system that has no randomness to give is told before anything is asked of it.
        random::number()?;
        let engine = Arc::new_cyclic(|me| Engine {
            store,
            options,
            image: fork::image(),
            inbox_id: OnceLock::new(),
            inbox: AtomicU8::new(code(Inbox::Closed)),
            inbox_wanted: AtomicBool::new(false),
            alive_until: AtomicU64::new(0),
            session_wanted: AtomicBool::new(false),
            heard: Mutex::default(),
            hints_refused: AtomicBool::new(false),
            listeners: Mutex::default(),
            host: host_name(),
            card: Mutex::default(),
            next_task: AtomicU64::new(1),
            next_slot: AtomicU64::new(1),
            line_up: Line::default(),
            watched: AtomicBool::default(),
            permits: Mutex::default(),
            entries: Mutex::default(),
            timer_queue: TimerQueue::new(me.clone()),
            renewals: Flusher::of(BatchKind::Renewals),
            returns: Flusher::of(BatchKind::Returns),
            asks: Flusher::of(BatchKind::Asks),
            turnstile: Turnstile::new(),
            closed: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            happened: Notify::new(),
            counters: Counters::default(),
            silence: Silence::default(),
            waits: Waits::default(),
            seen: Mutex::default(),
            me: me.clone(),
            #[cfg(test)]
            dry: AtomicBool::default(),
        });
        let mut engines = locked(engines());
        engines.retain(|known| known.strong_count() > 0);
        engines.push(Arc::downgrade(&engine));
        Ok(engine)
    }

    /// What it holds and asks for may be another process's, which has the same attempts: nothing more is sent for it.
    fn forsake(&self) {
        self.closed.store(true, Ordering::Release);
        for entry in self.live_entries() {
            let effects = entry.forsake(self);
            drop(self.perform_local(&entry, effects));
        }
        locked(&self.listeners).drain(..).for_each(|task| task.abort());
        self.store.close();
        self.timer_queue.stop();
    }

    /// Where this client hears what is pushed.
    ///
    /// # Errors
    /// As [`mint`](Self::mint), the first time.
    pub(crate) fn inbox_id(&self) -> Result<InboxId> {
        if let Some(known) = self.inbox_id.get() {
            return Ok(*known);
        }
        let drawn = InboxId(self.mint()?.0 as u64);
        Ok(*self.inbox_id.get_or_init(|| drawn))
    }

    pub(crate) fn inbox(&self) -> Inbox {
        decode(self.inbox.load(Ordering::Acquire))
    }

    /// What is left of a layout's promises where the store refused to push to this client.
    pub(crate) fn still_promised(&self, layout: &dyn Layout) -> Guarantees {
        let promised = layout.guarantees();
        match layout.protocol("".into()).traits().push {
            Push::Inbox | Push::Place if self.inbox() == Inbox::Unavailable => {
                Guarantees { push: false, fair: false, ..promised }
            }
            // The order is the store's, and polling keeps it.
            push if push.is_hint() && self.hints_refused.load(Ordering::Relaxed) => {
                Guarantees { push: false, ..promised }
            }
            _ => promised,
        }
    }

    pub(crate) fn store_timeout(&self) -> Duration {
        self.options.store_timeout
    }

    /// For how long a copy of what it asks may come.
    pub(crate) fn copies(&self) -> Duration {
        gate::copies(&self.options)
    }

    /// An id for a new attempt.
    ///
    /// # Errors
    /// `internal` while the operating system gives no randomness: an id that might be somebody else's is worse than
    /// none.
    pub(crate) fn mint(&self) -> Result<AttemptId> {
        #[cfg(test)]
        if self.dry.load(Ordering::Relaxed) {
            return Err(unrandom("none in this test"));
        }
        random::number().map(AttemptId).map_err(|error| unrandom(error.to_string()))
    }

    /// The entry of a lock, made at first use.
    pub(crate) fn entry(&self, layout: &Arc<dyn Layout>, name: &Arc<str>, key: &Arc<str>) -> Arc<Entry> {
        let mut entries = locked(&self.entries);
        // A gate that somebody waits for here is no lock.
        let way = |layout: &dyn Layout| {
            let name = (layout.name(), layout.format());
            (name, layout.share(), layout.has_many_holders(), layout.is_agreed())
        };
        if let Some(entry) = entries.of_key(key).find(|entry| way(&*entry.layout) == way(&**layout)) {
            return entry;
        }
        let entry = Arc::new(Entry::new(name.clone(), key.clone(), layout.clone()));
        entries.add(&entry);
        entries.remember(&entry);
        drop(entries);
        self.close_if_late(entry)
    }

    /// An entry for one acquisition of a lock that several may hold at once: each holder stands for itself at the
    /// store.
    pub(crate) fn own_entry(&self, layout: &Arc<dyn Layout>, name: &Arc<str>, key: &Arc<str>) -> Arc<Entry> {
        let entry = Arc::new(Entry::new(name.clone(), key.clone(), layout.clone()));
        locked(&self.entries).add(&entry);
        self.close_if_late(entry)
    }

    /// Whoever comes between the client's end and its own look at that has an entry which nobody told of it.
    fn close_if_late(&self, entry: Arc<Entry>) -> Arc<Entry> {
        if self.closed.load(Ordering::Acquire) {
            drop(self.perform_local(&entry, entry.close(self)));
        }
        entry
    }

    /// What this process says of itself while it holds a lock labelled `label`.
    pub(crate) fn card(&self, label: &str) -> Arc<str> {
        let mut last = locked(&self.card);
        match &*last {
            Some((known, card)) if known == label => card.clone(),
            _ => {
                let (host, language, label) = (self.host.clone(), self.options.language.to_owned(), label.to_owned());
                let card: Arc<str> =
                    Card { host, pid: std::process::id(), language, label: label.clone() }.encode().into();
                *last = Some((label, card.clone()));
                card
            }
        }
    }

    /// What the queue is asked for `wish`, made now; which task that is will be known once its lock has it.
    fn ask(&self, wish: &Wish) -> Ask {
        let options = &wish.options;
        Ask {
            task: TaskId(0),
            owner: wish.owner.filter(|_| options.reentrant),
            fair: options.fair,
            rank: Rank::new(options.rank).unwrap_or_default(),
            tries: options.tries(),
            deadline: match options.timeout.filter(|limit| !limit.is_zero()) {
                Some(limit) => Some(clock::now().after(limit)),
                None => wish.trial.until.filter(|_| options.tries()),
            },
            service: Service {
                ttl: options.ttl,
                renew: options.renew,
                max_hold: options.max_hold,
                retry: options.retry,
            },
        }
    }

    /// Rises from call to call.
    pub(super) fn next_task(&self) -> TaskId {
        TaskId(self.next_task.fetch_add(1, Ordering::Relaxed))
    }

    /// As [`next_task`](Self::next_task), for slots.
    pub(super) fn next_slot(&self) -> u64 {
        self.next_slot.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(Kind::Closed, "connect", "the client was closed; connect again"));
        }
        Ok(())
    }

    /// Until when a write begun at `now` may take, dialling included, for a caller that gives up at `deadline`. A store
    /// that is well is not cut short: whoever gives up parts from it, and is not kept for longer than that takes.
    pub(super) fn limit(&self, now: Time, deadline: Option<Time>) -> Time {
        let answered = now.after(self.options.connect_timeout).after(self.options.response_timeout);
        deadline.map_or(answered, |deadline| deadline.after(PARTING).min(answered))
    }

    /// Performs everything in this thread, and what follows from it, until somebody has a result: whoever that is goes
    /// on with it, and what is left (a renewal that is due with the grant) must not keep it, nor what a store is still
    /// asked that was silent for `store_timeout`. The background does that.
    pub(crate) fn perform(&self, entry: &Arc<Entry>, effects: Effects, deadline: Option<Time>) {
        let mut at = effects.machine.at;
        let gives_up = at.after(self.options.store_timeout);
        let mut is_told = effects.tells();
        let mut todo = self.perform_local(entry, effects);
        while !is_told && !todo.is_empty() && at < gives_up {
            let send = todo.remove(0);
            let limit = self.limit(at, deadline).min(gives_up);
            let answered = self.heard(1, self.store.call(&send.requests, limit));
            let follow = send.answered(self, &answered);
            at = follow.machine.at;
            is_told = follow.tells();
            append(&mut todo, self.perform_local(&send.entry, follow));
        }
        if !todo.is_empty() {
            self.send_in_background(todo);
        }
    }

    /// The same in this task. When the task is dropped meanwhile, the background goes on.
    pub(crate) async fn perform_async(&self, entry: &Arc<Entry>, effects: Effects, deadline: Option<Time>) {
        let mut at = effects.machine.at;
        let gives_up = at.after(self.options.store_timeout);
        let mut is_told = effects.tells();
        let mut todo = self.perform_local(entry, effects);
        while !is_told && !todo.is_empty() && at < gives_up {
            let limit = self.limit(at, deadline).min(gives_up);
            let mut flight = Flight { engine: self, sends: todo, limit };
            let answered = self.heard(1, self.call_async(&flight.sends[0].requests, limit).await);
            let send = flight.sends.remove(0);
            let follow = send.answered(self, &answered);
            at = follow.machine.at;
            is_told = follow.tells();
            let more = self.perform_local(&send.entry, follow);
            append(&mut flight.sends, more);
            todo = std::mem::take(&mut flight.sends);
        }
        if !todo.is_empty() {
            self.send_in_background(todo);
        }
    }

    /// The same in whichever of these ways, without a deadline.
    pub(crate) async fn perform_by(&self, road: Road, entry: &Arc<Entry>, effects: Effects) {
        match road {
            Road::Thread => self.perform(entry, effects, None),
            Road::Task => self.perform_async(entry, effects, None).await,
        }
    }

    /// Performs a write in this task, which may be of any executor.
    pub(super) async fn call_async(&self, requests: &Requests, limit: Time) -> Answered {
        Road::Task.call(&*self.store, requests, limit).await
    }

    /// What became of a write with this `limit` whose task was dropped before the answer.
    pub(super) fn abandoned(&self, limit: Time) -> Answered {
        self.unanswered(Kind::Cancelled, "the task was cancelled before the store answered", limit)
    }

    fn unanswered(&self, kind: Kind, why: &'static str, limit: Time) -> Answered {
        let error = Error::new(kind, "acquire", why);
        let now = clock::now();
        let void_after = self.store.void_after(now, limit);
        Answered { sent: now, outcome: Outcome::Unknown { error, void_after } }
    }

    /// How a call from the background that has until `limit` ends, also where the store panics.
    pub(super) async fn survive(&self, call: impl Future<Output = Answered>, limit: Time) -> Answered {
        match fence::contained(call).await {
            Ok(answered) => answered,
            Err(panicked) => {
                panicked.tell("a request", None, self.store.address());
                self.unanswered(Kind::Unavailable, "the request panicked; please report this", limit)
            }
        }
    }

    /// Performs everything from the background runtime.
    pub(crate) fn perform_in_background(&self, entry: &Arc<Entry>, effects: Effects) {
        let sends = self.perform_local(entry, effects);
        self.send_in_background(sends);
    }

    pub(crate) fn send_in_background(&self, sends: impl IntoIterator<Item = Outbound>) {
        for send in sends {
            match BatchKind::of(&send) {
                Some(kind) => self.flusher(kind).add(send, &self.me),
                None => self.send_alone(send),
            }
        }
    }

    fn send_alone(&self, send: Outbound) {
        let Some(engine) = self.me.upgrade() else { return };
        let work = async move {
            let (requests, parts) = joined(vec![send]);
            let limit = engine.limit(clock::now(), None);
            let answered = engine.survive(async { engine.store.call_async(&requests, limit).await }, limit).await;
            distribute(&engine, parts, answered);
        };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(work)),
            Err(error) => no_background(&error),
        }
    }

    pub(super) fn flusher(&self, kind: BatchKind) -> &Flusher {
        match kind {
            BatchKind::Renewals => &self.renewals,
            BatchKind::Returns => &self.returns,
            BatchKind::Asks => &self.asks,
        }
    }

    /// One round trip to the store ended, of so many requests.
    pub(super) fn heard(&self, requests: u64, answered: Answered) -> Answered {
        let answers_again = self.silence.hear(&answered, &self.store);
        if !matches!(answered.outcome, Outcome::Replies(_) | Outcome::Partly { .. }) {
            self.turnstile.open();
        }
        self.counters.change(|metrics| {
            metrics.requests += requests;
            metrics.round_trips += 1;
            metrics.reconnects += u64::from(answers_again);
        });
        answered
    }

    /// Everything but the writes, which it returns.
    pub(crate) fn perform_local(&self, entry: &Arc<Entry>, mut effects: Effects) -> SmallVec<[Outbound; 1]> {
        let Contents { machine: wanted, due, permits } = &mut *effects;
        let mut sends = SmallVec::<[Outbound; 1]>::new();
        for send in wanted.sends.drain(..) {
            sends.push(Outbound::of(entry, send));
        }
        let fence = Fence { lock: &entry.name, store: self.store.address() };
        for notice in wanted.notices.drain(..) {
            fence.run("a subscriber of tracing", || notice::tell(&notice, &entry.name, self.store.address()));
        }
        for hold in wanted.ended.drain(..) {
            hold.end(fence);
        }
        if let Some(due) = due.take() {
            self.timer_queue.schedule(entry, due, wanted.at);
        }
        if wanted.heeds {
            self.watch();
        }
        if wanted.is_rare() {
            self.perform_rare(wanted, fence);
        }
        if let Some(permits) = permits.take() {
            self.tell_of_permits(entry, permits);
        }
        for (waiter, result) in wanted.settled.drain(..) {
            // Whoever wanted it may have gone in this very moment.
            let follow = match waiter.settle(result, fence) {
                Some(Settled::Granted { hold, .. }) => entry.release(self, &hold, &Arc::default()),
                Some(Settled::Exported(secret)) => entry.retract(self, secret),
                _ => continue,
            };
            sends.extend(self.perform_local(entry, follow));
        }
        if !wanted.waits.is_empty() {
            sends.extend(self.perform_waits(entry, wanted));
        }
        if self.closed.load(Ordering::Relaxed) || self.drained.load(Ordering::Relaxed) {
            self.happened.notify_waiters();
        }
        effects.give_back();
        sends
    }

    fn perform_rare(&self, wanted: &mut Wanted, fence: Fence<'_>) {
        for (sent, at) in wanted.learnt.drain(..) {
            self.store.learn(sent, at);
        }
        for (hold, reason) in wanted.lost.drain(..) {
            hold.lose(reason, fence);
        }
        for hold in wanted.wanted.drain(..) {
            hold.want(fence);
        }
        if wanted.open_inbox {
            self.open_inbox();
        }
        if wanted.open_session {
            self.open_session();
        }
        if wanted.hear_hints {
            self.hear_hints();
        }
        if !wanted.let_through.is_empty() {
            self.line_up.went_through(self, &wanted.let_through);
        }
    }

    /// Who waits is known to whoever looks for circles; the writes that are left to send.
    fn perform_waits(&self, entry: &Arc<Entry>, wanted: &mut Wanted) -> SmallVec<[Outbound; 1]> {
        let mut sends = SmallVec::new();
        for Waiting { owner, task, lenient, begins } in wanted.waits.drain(..) {
            if lenient {
                if begins {
                    owners::warn_of_itself(entry, self.store.address(), owner, task);
                }
            } else if !begins {
                self.waits.end(owner, task);
            } else if let Some(error) = self.waits.begin(self, entry, owner, task, wanted.at) {
                let follow = entry.refuse(self, task, error);
                sends.extend(self.perform_local(entry, follow));
            }
        }
        sends
    }

    /// The entries of one key, at most so many.
    pub(super) fn entries_of_key(&self, key: &str, most: usize) -> Vec<Arc<Entry>> {
        locked(&self.entries).of_key(key).take(most).collect()
    }

    /// Whether to ask the store who holds it, since nobody did a moment ago; else what is known since then.
    pub(crate) fn looked_at(&self, entry: &Entry) -> Option<Option<Arc<str>>> {
        let now = clock::now();
        let mut seen = locked(&self.seen);
        match &*seen {
            Some(last) if *last.key == *entry.key && now < last.at.after(PARTING) => Some(last.who.clone()),
            _ => {
                *seen = Some(Seen { key: entry.key.clone(), at: now, who: None });
                None
            }
        }
    }

    /// Asks the store who holds it, in this thread and until `limit`.
    pub(crate) fn look_at(&self, entry: &Entry, limit: Time) -> Option<Arc<str>> {
        let inquiry = entry.layout.inspect(&entry.name, entry.key.clone());
        let found = inquiry.conclude(|requests| self.replies(self.store.call(requests, limit))).ok()?;
        self.seen(entry, &found)
    }

    /// The same in this task.
    pub(crate) async fn look_at_async(&self, entry: &Entry, limit: Time) -> Option<Arc<str>> {
        let mut inquiry = entry.layout.inspect(&entry.name, entry.key.clone());
        let found = loop {
            match inquiry {
                Inquiry::Ask(requests, next) => {
                    let answered = self.call_async(&requests, limit).await;
                    inquiry = next(&self.replies(answered).ok()?);
                }
                Inquiry::Done(found) => break found.ok()?,
            }
        };
        self.seen(entry, &found)
    }

    fn seen(&self, entry: &Entry, found: &Inspection) -> Option<Arc<str>> {
        let who: Arc<str> = held_by(found, &self.host)?.into();
        if let Some(seen) = locked(&self.seen).as_mut().filter(|seen| *seen.key == *entry.key) {
            seen.who = Some(who.clone());
        }
        Some(who)
    }

    /// What a write was answered that no session is concerned with.
    fn replies(&self, answered: Answered) -> Result<Vec<Reply>> {
        match self.heard(1, answered).outcome {
            Outcome::Replies(replies) | Outcome::Partly { replies, .. } => Ok(replies),
            Outcome::NotSent(error) | Outcome::Unknown { error, .. } => Err(error),
        }
    }

    /// Something is held from now on. Once something has been for a while, this client listens: whoever breaks it is
    /// heard at once.
    fn watch(&self) {
        if self.inbox_wanted.load(Ordering::Relaxed) || self.watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let me = self.me.clone();
        let look = async move {
            tokio::time::sleep(A_WHILE).await;
            let Some(engine) = me.upgrade().filter(|engine| engine.check_open().is_ok()) else { return };
            engine.watched.store(false, Ordering::Relaxed);
            if engine.counters.holds() {
                engine.open_inbox();
            }
        };
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(look)),
            Err(error) => no_background(&error),
        }
    }

    /// What this client takes for a semaphore of another size has so many permits: said once, for the last few of which
    /// it was.
    fn tell_of_permits(&self, entry: &Entry, permits: u32) {
        let mut told = locked(&self.permits);
        let this = (entry.key.clone(), permits);
        if !told.contains(&this) {
            told.push_back(this);
            if told.len() > RECENT {
                told.pop_front();
            }
            drop(told);
            let wanted = entry.layout.share().map_or(0, |share| share.capacity);
            notice::other_permits(&entry.name, self.store.address(), wanted, permits);
        }
    }

    fn open_inbox(&self) {
        if self.inbox_wanted.swap(true, Ordering::AcqRel) {
            return;
        }
        let state = match self.inbox_id() {
            Ok(inbox) => self.subscribe(INBOX, Topic::Inbox(inbox)),
            Err(_) => Inbox::Unavailable,
        };
        let state = if self.run_listeners().is_ok() { state } else { Inbox::Unavailable };
        if state != Inbox::Closed {
            Sink::inbox(self, state);
        }
    }

    fn open_session(&self) {
        if self.session_wanted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.subscribe(SESSION, Topic::Session);
        if let Err(error) = self.run_listeners() {
            no_background(&error);
        }
    }

    /// Until when this client's session at the store lives, as the store said last; zero where it has none.
    pub(super) fn alive_until(&self) -> Time {
        Time::from_nanos(self.alive_until.load(Ordering::Acquire))
    }

    fn hear_hints(&self) {
        // Without a listener waiters ask by a timer.
        if let Err(error) = self.run_listeners() {
            no_background(&error);
        }
    }

    /// Listens on `channel`, for the contender of `slot`, which waits for the lock under `key`.
    pub(super) fn listen(&self, slot: u64, channel: Channel<'_>, key: &Arc<str>) -> Inbox {
        self.subscribe(slot, Topic::Channel { channel, key })
    }

    /// Listens no more for the contender of `slot`.
    pub(super) fn listen_no_more(&self, slot: u64) {
        let over = locked(&self.heard).by_slot.remove(&slot);
        drop(over);
    }

    /// Begins to listen; what is to be run for it waits until no lock's mutex is held.
    fn subscribe(&self, slot: u64, topic: Topic<'_>) -> Inbox {
        let mut subscription = self.store.clone().subscribe(topic, self.me.clone());
        let state = subscription.state();
        if matches!(topic, Topic::Channel { channel: Channel { overheard: true, .. }, .. }) && state != Inbox::Live {
            return state;
        }
        let mut heard = locked(&self.heard);
        heard.works.extend(subscription.take_work());
        let before = heard.by_slot.insert(slot, subscription);
        drop(heard);
        drop(before);
        state
    }

    /// Has the background do what subscriptions need.
    fn run_listeners(&self) -> Result<()> {
        let works = std::mem::take(&mut locked(&self.heard).works);
        for mut work in works {
            let address = self.store.address().clone();
            let task = runtime::handle()?.spawn(async move { fence::kept_up("the inbox", &address, &mut work).await });
            locked(&self.listeners).push(task.abort_handle());
        }
        Ok(())
    }

    fn entries_of(&self, key: &str) -> SmallVec<[Arc<Entry>; 1]> {
        locked(&self.entries).of_key(key).collect()
    }

    /// The entries of `key` that `event` may concern.
    fn concerned(&self, key: &str, event: &StoreEvent) -> SmallVec<[Arc<Entry>; 1]> {
        if let StoreEvent::Granted { attempt, .. } = event {
            let waits = locked(&self.entries).awaiting(*attempt);
            if let Some(entry) = waits.filter(|entry| *entry.key == *key) {
                return SmallVec::from_iter([entry]);
            }
        }
        self.entries_of(key)
    }

    /// `entry`, which is of one acquisition, waits under `attempt`.
    pub(super) fn await_grant(&self, attempt: AttemptId, entry: &Arc<Entry>) {
        locked(&self.entries).await_grant(attempt, entry);
    }

    /// It waits no more.
    pub(super) fn await_no_grant(&self, attempt: AttemptId) {
        locked(&self.entries).await_no_grant(attempt);
    }

    /// How many are ahead at most of those who wait for `key` here, in the order in which they came.
    fn places(&self, key: &str) -> Vec<u32> {
        ahead_of_each(self.entries_of(key).iter().flat_map(|entry| entry.places()))
    }

    /// What the store says of a lock, with what is known here of those who wait for it.
    pub(crate) fn with_places(&self, key: &str, seen: Inspection) -> Inspection {
        let ahead = if seen.waiters > 0 { self.places(key) } else { Vec::new() };
        Inspection { ahead, ..seen }
    }

    /// What is held under `key` with `token` was `broken` by this client: whoever has it here is told. Else what this
    /// client holds under `key` may be gone: the store is asked.
    pub(crate) async fn asked_to_break(&self, road: Road, key: &str, token: u64, broken: bool) {
        for entry in self.entries_of(key) {
            let effects = if broken { entry.broken(self, token) } else { entry.verify(self) };
            self.perform_by(road, &entry, effects).await;
        }
    }

    pub(crate) fn live_entries(&self) -> Vec<Arc<Entry>> {
        locked(&self.entries).all().collect()
    }

    /// Has a conversation with the store that no session is concerned with: asks each thing as often as `store_timeout`
    /// allows.
    ///
    /// # Errors
    /// What the store or the connection said.
    pub(crate) async fn inquire_by<T>(&self, road: Road, inquiry: Inquiry<'_, T>) -> Result<T> {
        self.inquire_at(road, inquiry, None).await.map(|(_, answer)| answer)
    }

    /// The same, with the time at which what was answered last was sent, and nothing waits any more at `latest`.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn inquire_at<T>(
        &self,
        road: Road,
        mut inquiry: Inquiry<'_, T>,
        latest: Option<Time>,
    ) -> Result<(Time, T)> {
        let mut sent = clock::now();
        loop {
            match inquiry {
                Inquiry::Ask(requests, next) => {
                    let answered = self.ask_until_answered(road, &requests, latest).await?;
                    sent = answered.0;
                    inquiry = next(&answered.1);
                }
                Inquiry::Done(result) => return result.map(|answer| (sent, answer)),
            }
        }
    }

    /// Until when a store that is asked now may keep silent.
    pub(crate) fn silent_until(&self) -> Time {
        clock::now().after(self.options.store_timeout)
    }

    async fn ask_until_answered(
        &self,
        road: Road,
        requests: &Requests,
        latest: Option<Time>,
    ) -> Result<(Time, Vec<Reply>)> {
        let silent_until = self.silent_until();
        let give_up = latest.map_or(silent_until, |latest| latest.min(silent_until));
        let mut told = None;
        loop {
            let limit = self.limit(clock::now(), None).min(give_up);
            let answered = road.call(&*self.store, requests, limit).await;
            let sent = answered.sent;
            let error = match self.replies(answered) {
                Ok(replies) => return Ok((sent, replies)),
                Err(error) => error,
            };
            if error.kind() != Kind::Unavailable {
                return Err(error);
            }
            if clock::now() >= give_up {
                // The last try had less time than it needs, so what was found before says more.
                return Err(told.unwrap_or(error));
            }
            told = Some(error);
            road.pause(Duration::from_millis(20)).await?;
        }
    }

    /// Whether acquisitions may begin.
    pub(crate) fn check_not_drained(&self) -> Result<()> {
        if self.drained.load(Ordering::Acquire) { Err(drained()) } else { Ok(()) }
    }

    /// Begins nothing any more, and waits until nothing is held, for at most `limit`: the names of what is held yet.
    ///
    /// # Errors
    /// Where there is nothing to wait with.
    pub(crate) async fn drain(&self, road: Road, limit: Duration) -> Result<Vec<String>> {
        self.drained.store(true, Ordering::Release);
        for entry in self.live_entries() {
            self.perform_in_background(&entry, entry.refuse_all(self, &drained()));
        }
        road.wait_until(|| !self.counters.holds(), &self.happened, limit).await?;
        let held = |entry: Arc<Entry>| entry.holder_here().map(|_| entry.name.to_string());
        let mut left: Vec<String> = self.live_entries().into_iter().filter_map(held).collect();
        left.sort();
        Ok(left)
    }
}

/// What an abandoned task was in the middle of sending: the first write's outcome is unknown, the others go out yet.
struct Flight<'a> {
    engine: &'a Engine,
    sends: SmallVec<[Outbound; 1]>,
    limit: Time,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.sends.is_empty() {
            return;
        }
        let send = self.sends.remove(0);
        let follow = send.answered(self.engine, &self.engine.abandoned(self.limit));
        self.engine.perform_in_background(&send.entry, follow);
        self.engine.send_in_background(std::mem::take(&mut self.sends));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        locked(&self.listeners).drain(..).for_each(|task| task.abort());
        self.timer_queue.stop();
    }
}

impl Sink for Engine {
    fn inbox(&self, state: Inbox) {
        let before = decode(self.inbox.swap(code(state), Ordering::AcqRel));
        notice::inbox_changed(before, state, self.store.address());
        for entry in self.live_entries() {
            let effects = entry.inbox(self, state);
            self.perform_in_background(&entry, effects);
        }
        self.line_up.inbox_changed(self, state);
    }

    fn pushed(&self, key: &str, event: &StoreEvent) {
        for entry in self.concerned(key, event) {
            let effects = entry.pushed(self, event);
            self.perform_in_background(&entry, effects);
        }
    }

    fn channel(&self, key: &str, channel: &str, state: Inbox) {
        if state != Inbox::Closed {
            self.hints_refused.store(state == Inbox::Unavailable, Ordering::Relaxed);
        }
        for entry in self.entries_of(key) {
            let effects = entry.channel(self, channel, state);
            self.perform_in_background(&entry, effects);
        }
    }

    fn session(&self, alive_until: Time) {
        self.alive_until.fetch_max(alive_until.as_nanos(), Ordering::AcqRel);
        for entry in self.live_entries() {
            let effects = entry.alive(self, alive_until);
            self.perform_in_background(&entry, effects);
        }
    }

    fn session_over(&self) {
        self.alive_until.store(0, Ordering::Release);
        for entry in self.live_entries() {
            let effects = entry.session_over(self);
            self.perform_in_background(&entry, effects);
        }
    }

    fn restarted(&self) {
        notice::store_restarted(self.store.address());
        self.unheard();
    }

    fn unheard(&self) {
        for entry in self.live_entries() {
            let effects = entry.verify(self);
            self.perform_in_background(&entry, effects);
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.store.address())
    }
}

/// Why nothing is begun by a client that is drained.
fn drained() -> Error {
    Error::new(Kind::Closed, "acquire", "the client is drained before its program ends; connect again")
}

fn unrandom(why: impl Into<String>) -> Error {
    let message = "the operating system gives no random numbers, without which no two attempts can be told apart; nothing was \
                   asked of the store";
    Error::new(Kind::Internal, "acquire", message).caused_by(why.into())
}

pub(super) fn no_background(error: &Error) {
    fence::told(|| {
        tracing::error!(target: "lockwright::runtime", %error, "no background thread: leases will not be renewed");
    });
}

/// Mostly there is nothing yet.
fn append(all: &mut SmallVec<[Outbound; 1]>, more: SmallVec<[Outbound; 1]>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.extend(more);
    }
}

fn code(inbox: Inbox) -> u8 {
    match inbox {
        Inbox::Closed => 0,
        Inbox::Live => 1,
        Inbox::Unavailable => 2,
    }
}

fn decode(code: u8) -> Inbox {
    match code {
        1 => Inbox::Live,
        2 => Inbox::Unavailable,
        _ => Inbox::Closed,
    }
}

/// Starts an acquisition, or takes over what `secret` holds: the caller performs the effects and waits on the waiter.
pub(crate) fn begin(
    engine: &Engine,
    entry: &Arc<Entry>,
    wish: &Wish,
    card: &Arc<str>,
    secret: Option<AttemptId>,
) -> (Ask, Arc<Waiter>, Effects) {
    let mut ask = engine.ask(wish);
    let waiter = Waiter::new();
    let hurries = ask.tries && secret.is_none() && wish.trial.hurries;
    let by = wish.owner.filter(|owner| owner.0 > 0);
    let demand = Demand {
        ask,
        card,
        by,
        holds_nothing: by.is_some_and(owners::holds_nothing),
        lenient: wish.lenient,
        secret,
        insists: !wish.prefers_order,
        hurries,
    };
    let (task, effects) = entry.acquire(engine, demand, &waiter);
    ask.task = task;
    (ask, waiter, effects)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use lockwright_machines::queue::Refusal;
    use lockwright_machines::stores::zookeeper::layouts::line_layout::LineLayout;
    use lockwright_machines::stores::zookeeper::layouts::recipe::Recipe;

    use super::super::road::here;
    use super::*;
    use crate::blocking::{self, Blocking};
    use crate::client::{Acquisition, Async};
    use crate::platform::simulated;
    use crate::protocol::Request;
    use crate::stores::BoxFuture;
    use crate::token::Token;

    #[test]
    fn a_hold_that_is_over_refuses_nobody_though_the_wheel_is_late() {
        let client = blocking::Client::open(Some("memory://late-timers"), ConnectOptions::default()).unwrap();
        let lock = client.lock("x").ttl(Duration::from_millis(20)).renew(false).build().unwrap();
        let (held, effects) = lock.start(None).unwrap();
        held.engine.timer_queue.starve();
        held.engine.perform(&held.entry, effects, None);
        assert!(lock.try_acquire().unwrap().is_none());
        while client.inspect("x").unwrap().holder.is_some() {
            std::thread::yield_now();
        }
        assert!(lock.try_acquire().unwrap().is_some());
    }

    #[test]
    fn a_short_time_limit_leaves_a_store_that_is_well_the_time_to_answer() {
        let client = blocking::Client::open(Some("memory://short-limit"), ConnectOptions::default()).unwrap();
        let (engine, now) = (taken(&client).engine.clone(), clock::now());
        let deadline = now.after(Duration::from_millis(1));
        assert_eq!(engine.limit(now, Some(deadline)), deadline.after(PARTING));
        assert!(engine.limit(now, None) > deadline.after(PARTING));
    }

    /// The lock `x` is granted, and nobody has taken up the grant.
    fn taken(client: &blocking::Client) -> Acquisition<Blocking> {
        let (held, effects) = client.lock("x").build().unwrap().start(None).unwrap();
        held.engine.perform(&held.entry, effects, None);
        held
    }

    #[test]
    fn two_extensions_of_one_hold_are_both_answered() {
        let client = blocking::Client::open(Some("memory://two-extensions"), ConnectOptions::default()).unwrap();
        let held = taken(&client);
        let Some(Settled::Granted { hold, .. }) = held.waiter.take() else { panic!("it is free") };
        let waiters = [Arc::<Waiter>::default(), Arc::default()];
        let extend = |i: usize| held.entry.extend(&held.engine, &hold, Duration::from_secs(60 + i as u64), &waiters[i]);
        // Neither request has left when the other is made.
        for effects in [extend(0), extend(1)] {
            held.engine.perform(&held.entry, effects, None);
        }
        let answers = waiters.map(|waiter| waiter.take());
        assert!(matches!(answers, [Some(Settled::Extended(true)), Some(Settled::Extended(true))]), "{answers:?}");
    }

    /// Somebody waits for `x`, which another client holds, and the time limit is over; the timer queue looks at
    /// nothing.
    fn out_of_time(space: &str) -> (Acquisition<Blocking>, [blocking::Client; 2], blocking::Guard) {
        let clients = [0, 1].map(|_| blocking::Client::open(Some(space), ConnectOptions::default()).unwrap());
        let guard = clients[0].lock("x").acquire().unwrap();
        let (waits, effects) = clients[1].lock("x").build().unwrap().start(Some(Duration::from_millis(5))).unwrap();
        waits.engine.timer_queue.starve();
        waits.engine.perform(&waits.entry, effects, None);
        // The inbox is opened in the background, which then takes the place.
        while clients[0].inspect("x").unwrap().waiters == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(crate::client::left(waits.deadline.unwrap()));
        (waits, clients, guard)
    }

    #[test]
    fn who_came_before_the_inbox_was_open_gets_in_line_first() {
        let clients =
            [0, 1].map(|_| blocking::Client::open(Some("memory://in-line"), ConnectOptions::default()).unwrap());
        let guard = clients[0].lock("x").acquire().unwrap();
        let lock = clients[1].lock("x").fair().build().unwrap();
        let (first, effects) = lock.start(None).unwrap();
        let engine = first.engine.clone();
        // It is wanted, and nobody opens it yet.
        engine.inbox_wanted.store(true, Ordering::Relaxed);
        engine.perform(&first.entry, effects, None);
        // It is open, and nobody was told so yet.
        engine.inbox.store(code(Inbox::Live), Ordering::Release);
        let (second, effects) = lock.start(None).unwrap();
        engine.perform(&second.entry, effects, None);
        engine.inbox_wanted.store(false, Ordering::Relaxed);
        engine.open_inbox();
        while clients[1].inspect("x").unwrap().ahead.len() < 2 || engine.line_up.is_used() {
            std::thread::yield_now();
        }
        let _ = guard.release().unwrap();
        let served = first.waiter.park(Some(Duration::from_secs(20)));
        assert!(matches!(served, Some(Settled::Granted { .. })) && second.waiter.take().is_none(), "{served:?}");
    }

    #[test]
    fn who_is_told_that_the_time_is_over_has_left_no_place() {
        let (waits, clients, _guard) = out_of_time("memory://parting");
        let effects = waits.entry.expire(&waits.engine);
        assert_eq!(clients[0].inspect("x").unwrap().waiters, 1);
        assert!(effects.machine.settled.is_empty());
        waits.engine.perform(&waits.entry, effects, None);
        assert_eq!(clients[0].inspect("x").unwrap().waiters, 0);
        assert!(matches!(waits.waiter.take(), Some(Settled::Refused(Refusal::TimedOut(_)))));
    }

    #[test]
    fn a_place_that_does_not_go_keeps_nobody_for_long() {
        let (waits, _clients, _guard) = out_of_time("memory://not-parting");
        let unsent = waits.entry.tick(&waits.engine);
        assert!(unsent.due.is_some_and(|due| due <= unsent.machine.at.after(PARTING)));
        std::thread::sleep(PARTING);
        let told = waits.entry.tick(&waits.engine);
        assert!(matches!(&told.machine.settled[..], [(_, Settled::Refused(Refusal::TimedOut(_)))]));
        drop(unsent);
    }

    /// The one party of two that waits for `x` gives up; nobody has told the store yet.
    fn giving_up(space: &str) -> (Acquisition<Blocking>, [blocking::Barrier; 2], Effects) {
        let barriers = [0, 1].map(|_| {
            let options = ConnectOptions { store_timeout: Duration::from_millis(50), ..ConnectOptions::default() };
            blocking::Client::open(Some(space), options).unwrap().barrier("x", 2).build().unwrap()
        });
        let (waits, effects) = barriers[0].gate().start(Some(Duration::from_millis(5))).unwrap();
        waits.engine.timer_queue.starve();
        waits.engine.perform(&waits.entry, effects, None);
        std::thread::sleep(crate::client::left(waits.deadline.unwrap()));
        let effects = waits.entry.expire(&waits.engine);
        assert!(effects.machine.settled.is_empty());
        (waits, barriers, effects)
    }

    #[test]
    fn a_wait_that_is_given_up_just_as_the_barrier_opens_succeeds() {
        let (waits, [_, other], effects) = giving_up("memory://barrier-opens");
        let theirs = other.wait().unwrap();
        waits.engine.perform(&waits.entry, effects, None);
        let Some(Settled::Granted { hold, .. }) = waits.waiter.take() else { panic!("the other went on") };
        let mine = crate::Arrival::from(hold.token());
        assert_eq!((mine.generation, mine.index, theirs.index), (theirs.generation, 0, 1));
        waits.engine.perform(&waits.entry, waits.entry.release(&waits.engine, &hold, &Arc::default()), None);
        let metrics = waits.engine.counters.snapshot();
        assert_eq!((metrics.acquired, metrics.held, metrics.timeouts, metrics.waiting), (1, 0, 0, 0));
    }

    #[test]
    fn a_wait_that_is_given_up_before_is_counted_for_nobody() {
        let (waits, [_, other], effects) = giving_up("memory://barrier-stays-shut");
        waits.engine.perform(&waits.entry, effects, None);
        assert!(matches!(waits.waiter.take(), Some(Settled::Refused(Refusal::TimedOut(_)))));
        assert_eq!(other.waiting().unwrap(), 0);
        assert!(other.wait_within(Some(Duration::ZERO)).unwrap().is_none());
    }

    #[test]
    fn a_wait_of_which_the_store_does_not_say_what_became_fails() {
        let (waits, _others, unsent) = giving_up("memory://barrier-unknown");
        std::thread::sleep(PARTING);
        let told = waits.entry.tick(&waits.engine);
        let unknown =
            |refused: &Refusal| matches!(refused, Refusal::Failed(error) if error.kind() == Kind::Unavailable);
        assert!(matches!(&told.machine.settled[..], [(_, Settled::Refused(refused))] if unknown(refused)), "{told:?}");
        drop(unsent);
    }

    /// As much of a server with sessions as one contender for each lock needs.
    #[derive(Debug)]
    struct Keeper {
        address: Arc<str>,
        layouts: [Arc<dyn Layout>; 1],
        nodes: Mutex<HashMap<String, String>>,
        asked: AtomicU64,
        keeps_alive: AtomicBool,
    }

    impl Keeper {
        fn answer(&self, request: &Request) -> Reply {
            let mut nodes = locked(&self.nodes);
            let dir = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
            match request.call.name {
                "create" => {
                    let path = format!("{}0000000001", request.key);
                    nodes.insert(dir(&path), path.rsplit_once('/').unwrap().1.to_owned());
                    Reply::List(vec![Reply::Int(7), Reply::Text(path), Reply::Int(100), Reply::Int(7)])
                }
                "children" => {
                    let names = nodes.get(&*request.key).into_iter().map(|name| Reply::Text(name.clone()));
                    Reply::List([Reply::Int(7)].into_iter().chain(names).collect())
                }
                "delete" => {
                    nodes.remove(&dir(&request.key));
                    Reply::Nil
                }
                _ => Reply::Nil,
            }
        }
    }

    impl Store for Keeper {
        fn address(&self) -> &Arc<str> {
            &self.address
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            &self.layouts
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, _: Time) -> BoxFuture<'a, Answered> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let outcome = Outcome::Replies(requests.iter().map(|request| self.answer(request)).collect());
            Box::pin(std::future::ready(Answered { sent: clock::now(), outcome }))
        }

        fn void_after(&self, given_up: Time, _: Time) -> Time {
            given_up
        }

        fn subscribe(self: Arc<Self>, topic: Topic<'_>, _: Weak<dyn Sink>) -> Subscription {
            let is_session = matches!(topic, Topic::Session);
            self.keeps_alive.fetch_or(is_session, Ordering::SeqCst);
            Subscription::of(if is_session { Inbox::Live } else { Inbox::Unavailable })
        }
    }

    #[test]
    fn the_clients_session_is_the_life_of_all_its_locks() {
        let layouts: [Arc<dyn Layout>; 1] =
            [Arc::new(LineLayout::new("/locks".into(), String::new(), Duration::from_secs(30), Recipe::Mutex))];
        let (nodes, asked, keeps_alive) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        let store = Arc::new(Keeper { address: "keeper://".into(), layouts, nodes, asked, keeps_alive });
        let engine = Engine::new(store.clone(), ConnectOptions::default()).unwrap();
        let first = clock::now().after(Duration::from_secs(20));
        Sink::session(&*engine, first);
        let options = AcquireOptions { ttl: Duration::from_millis(300), ..AcquireOptions::default() };
        let wish = Wish::new(options, None);
        let held = ["a", "b"].map(|name| {
            let entry = engine.entry(&store.layouts[0], &name.into(), &store.layouts[0].key(name).unwrap());
            let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
            engine.perform(&entry, effects, None);
            let Some(Settled::Granted { hold, .. }) = waiter.take() else { panic!("it is free") };
            (entry, hold)
        });
        assert!(store.keeps_alive.load(Ordering::SeqCst), "the store knows that it is to keep one");
        assert!(held.iter().all(|(_, hold)| hold.valid_until() == first));
        let asked = store.asked.load(Ordering::SeqCst);
        let later = first.after(Duration::from_secs(5));
        Sink::session(&*engine, later);
        for (entry, hold) in &held {
            // Whenever it is looked at, there is nothing to renew.
            drop(engine.perform_local(entry, entry.tick(&engine)));
            assert_eq!(hold.valid_until(), later);
        }
        assert_eq!(store.asked.load(Ordering::SeqCst), asked);
        Sink::session_over(&*engine);
        assert!(held.iter().all(|(_, hold)| hold.why_lost() == Some(crate::lease::LossReason::Expired)));
        assert_eq!(engine.alive_until(), Time::ZERO);
    }

    /// Nobody answers, nor says so before the limit.
    #[derive(Debug)]
    struct Silent {
        memory: Arc<dyn Store>,
        limit: Mutex<Option<Time>>,
    }

    impl Store for Silent {
        fn address(&self) -> &Arc<str> {
            self.memory.address()
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            self.memory.layouts()
        }

        fn call_async<'a>(&'a self, _: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            locked(&self.limit).get_or_insert(limit);
            let outcome = Outcome::NotSent(Error::new(Kind::Unavailable, "acquire", "nobody answers"));
            Box::pin(std::future::ready(Answered { sent: clock::now(), outcome }))
        }

        fn void_after(&self, given_up: Time, _: Time) -> Time {
            given_up
        }
    }

    #[test]
    fn whoever_asks_is_kept_no_longer_than_the_store_may_be_silent() {
        let mut uri = crate::uri::Uri::parse("memory://silent", ConnectOptions::default()).unwrap();
        let memory = crate::stores::open(&mut uri).unwrap();
        let store_timeout = Duration::from_millis(100);
        for road in [Road::Thread, Road::Task] {
            let store = Arc::new(Silent { memory: memory.clone(), limit: Mutex::default() });
            let engine = Engine::new(store.clone(), ConnectOptions { store_timeout, ..ConnectOptions::default() });
            let engine = engine.unwrap();
            let entry = engine.entry(&memory.layouts()[0], &"x".into(), &"x".into());
            let (_, _, effects) = begin(&engine, &entry, &Wish::new(AcquireOptions::default(), None), &"".into(), None);
            let gives_up = effects.machine.at.after(store_timeout);
            runtime::block_on(engine.perform_by(road, &entry, effects)).unwrap();
            assert_eq!(*locked(&store.limit), Some(gives_up), "by {road:?}");
        }
    }

    #[test]
    fn who_tries_is_refused_though_an_earlier_request_of_its_own_may_still_be_under_way() {
        simulated::run(async {
            let lock = || {
                let client = blocking::Client::open(Some("memory://tries"), ConnectOptions::default()).unwrap();
                client.into_face::<Async>().lock("x").build().unwrap()
            };
            let _held = lock().acquire().await.unwrap();
            let engine = lock().engine().unwrap();
            engine.timer_queue.starve();
            let layout = engine.store.layouts()[0].clone();
            let entry = engine.entry(&layout, &"x".into(), &layout.key("x").unwrap());
            let wish = Wish::new(AcquireOptions { timeout: Some(Duration::ZERO), ..AcquireOptions::default() }, None);
            let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
            let first = engine.perform_local(&entry, effects).remove(0);
            let lost = engine.unanswered(Kind::Unavailable, "nobody answers", clock::now());
            drop(engine.perform_local(&entry, first.answered(&engine, &lost)));
            tokio::time::sleep(Duration::from_secs(1)).await;
            let second = engine.perform_local(&entry, entry.tick(&engine)).remove(0);
            let taken = engine.store.call(&second.requests, engine.limit(clock::now(), None));
            drop(engine.perform_local(&entry, second.answered(&engine, &taken)));
            assert!(matches!(waiter.take(), Some(Settled::Refused(Refusal::Taken))));
        });
    }

    /// Memory whose background answers once it may.
    #[derive(Debug)]
    struct Gated {
        memory: Arc<dyn Store>,
        is_asked: tokio::sync::Notify,
        may_answer: tokio::sync::Notify,
    }

    impl Store for Gated {
        fn address(&self) -> &Arc<str> {
            self.memory.address()
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            self.memory.layouts()
        }

        fn call(&self, requests: &Requests, limit: Time) -> Answered {
            self.memory.call(requests, limit)
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            Box::pin(async move {
                self.is_asked.notify_one();
                self.may_answer.notified().await;
                self.memory.call(requests, limit)
            })
        }

        fn void_after(&self, given_up: Time, limit: Time) -> Time {
            self.memory.void_after(given_up, limit)
        }

        fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
            self.memory.clone().subscribe(topic, sink)
        }
    }

    #[test]
    fn closing_goes_on_as_soon_as_the_background_is_done() {
        let mut uri = crate::uri::Uri::parse("memory://closing", ConnectOptions::default()).unwrap();
        let memory = crate::stores::open(&mut uri).unwrap();
        let store = Arc::new(Gated { memory, is_asked: Default::default(), may_answer: Default::default() });
        let options = ConnectOptions { store_timeout: Duration::from_secs(20), ..uri.connect };
        let engine = Engine::new(store.clone(), options).unwrap();
        let layout = store.layouts()[0].clone();
        let entry = engine.entry(&layout, &"x".into(), &layout.key("x").unwrap());
        let wish = Wish::new(AcquireOptions::default(), None);
        let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
        engine.perform(&entry, effects, None);
        let Some(Settled::Granted { hold, .. }) = waiter.take() else { panic!("it is free") };
        let effects = entry.release(&engine, &hold, &Arc::default());
        engine.perform_in_background(&entry, effects);
        runtime::handle().unwrap().block_on(store.is_asked.notified());
        let began = std::time::Instant::now();
        let closing = std::thread::spawn({
            let engine = engine.clone();
            move || here(engine.close(Road::Thread))
        });
        // It looks once before it waits; whoever looked again and again would not notice the difference.
        while engine.check_open().is_ok() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!closing.is_finished(), "a release is under way");
        store.may_answer.notify_one();
        closing.join().unwrap().unwrap();
        assert!(entry.is_idle() && began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    /// Why whoever asks for the lock of `entry` does not get it.
    fn refusal(engine: &Arc<Engine>, entry: &Arc<Entry>) -> Error {
        let wish = Wish::new(AcquireOptions::default(), None);
        let (_, waiter, effects) = begin(engine, entry, &wish, &"".into(), None);
        engine.perform(entry, effects, None);
        let Some(Settled::Refused(Refusal::Failed(error))) = waiter.take() else { panic!("it is not refused") };
        error
    }

    #[test]
    fn whoever_comes_as_the_client_is_closed_is_told_so() {
        let mut uri = crate::uri::Uri::parse("memory://closing-late", ConnectOptions::default()).unwrap();
        let engine = Engine::new(crate::stores::open(&mut uri).unwrap(), uri.connect).unwrap();
        here(engine.close(Road::Thread)).unwrap();
        let layout = engine.store.layouts()[0].clone();
        let (name, key): (Arc<str>, Arc<str>) = ("x".into(), layout.key("x").unwrap());
        for entry in [engine.entry(&layout, &name, &key), engine.own_entry(&layout, &name, &key)] {
            assert_eq!(refusal(&engine, &entry).kind(), Kind::Closed);
        }
    }

    #[test]
    fn whoever_comes_as_the_client_is_drained_is_told_so() {
        let mut uri = crate::uri::Uri::parse("memory://drained-late", ConnectOptions::default()).unwrap();
        let engine = Engine::new(crate::stores::open(&mut uri).unwrap(), uri.connect).unwrap();
        let layout = engine.store.layouts()[0].clone();
        let entry = engine.entry(&layout, &"x".into(), &layout.key("x").unwrap());
        assert!(here(engine.drain(Road::Thread, Duration::ZERO)).unwrap().is_empty());
        assert_eq!(refusal(&engine, &entry).kind(), Kind::Closed);
    }

    #[test]
    fn closing_goes_on_in_the_background_when_its_task_is_dropped() {
        let mut uri = crate::uri::Uri::parse("memory://closing-dropped", ConnectOptions::default()).unwrap();
        let memory = crate::stores::open(&mut uri).unwrap();
        let store = Arc::new(Gated { memory, is_asked: Default::default(), may_answer: Default::default() });
        let engine = Engine::new(store.clone(), uri.connect).unwrap();
        let layout = store.layouts()[0].clone();
        let hold = |number: usize| {
            let name: Arc<str> = format!("x{number}").into();
            let entry = engine.entry(&layout, &name, &layout.key(&name).unwrap());
            let wish = Wish::new(AcquireOptions::default(), None);
            let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
            engine.perform(&entry, effects, None);
            (entry, waiter)
        };
        // More than go in one write: of the others nothing was sent when it is dropped.
        let held: Vec<_> = (0..=BatchKind::Returns.size()).map(hold).collect();
        let mut closing = Box::pin(engine.close(Road::Task));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(closing.as_mut().poll(&mut context).is_pending() && held.iter().any(|(entry, _)| !entry.is_idle()));
        drop(closing);
        let give_up = clock::now().after(Duration::from_secs(20));
        while !held.iter().all(|(entry, _)| entry.is_idle()) {
            assert!(clock::now() < give_up, "some are held yet");
            store.may_answer.notify_one();
            std::thread::yield_now();
        }
    }

    /// Memory that answers an acquire late, and anything later not at all.
    #[derive(Debug)]
    struct Slow(Arc<dyn Store>, Duration);

    impl Slow {
        fn client(space: &str, delay: Duration) -> Arc<Engine> {
            let mut uri = crate::uri::Uri::parse(space, ConnectOptions::default()).unwrap();
            Engine::new(Arc::new(Slow(crate::stores::open(&mut uri).unwrap(), delay)), uri.connect).unwrap()
        }
    }

    impl Store for Slow {
        fn address(&self) -> &Arc<str> {
            self.0.address()
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            self.0.layouts()
        }

        fn call(&self, requests: &Requests, limit: Time) -> Answered {
            let answered = self.0.call(requests, limit);
            std::thread::sleep(self.1);
            answered
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            Box::pin(async move {
                if requests[0].call.name == "acquire" {
                    return self.call(requests, limit);
                }
                // What keeps the background's thread would keep every other test's locks from being renewed.
                let sent = clock::now();
                tokio::time::sleep(limit.since(sent)).await;
                Answered { sent, outcome: Outcome::NotSent(Error::new(Kind::Unavailable, "renew", "no answer")) }
            })
        }

        fn call_batch(self: Arc<Self>, requests: Requests, limit: Time) -> BoxFuture<'static, Answered> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                self.0.clone().call_batch(requests, limit).await
            })
        }

        fn void_after(&self, _: Time, limit: Time) -> Time {
            limit
        }

        fn subscribe(self: Arc<Self>, _: Topic<'_>, _: Weak<dyn Sink>) -> Subscription {
            Subscription::of(Inbox::Closed)
        }
    }

    /// Memory that executes an acquire shortly before the end of its time, whoever awaits it.
    #[derive(Debug)]
    struct Tardy {
        memory: Arc<dyn Store>,
        has_executed: Arc<AtomicBool>,
    }

    impl Store for Tardy {
        fn address(&self) -> &Arc<str> {
            self.memory.address()
        }

        fn layouts(&self) -> &[Arc<dyn Layout>] {
            self.memory.layouts()
        }

        fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
            if requests[0].call.name != "acquire" {
                return self.memory.call_async(requests, limit);
            }
            let (memory, requests, has_executed) = (self.memory.clone(), requests.clone(), self.has_executed.clone());
            let late = runtime::handle().unwrap().spawn(async move {
                tokio::time::sleep(limit.since(clock::now()) * 9 / 10).await;
                let answered = memory.call(&requests, limit);
                has_executed.store(true, Ordering::SeqCst);
                answered
            });
            Box::pin(async { late.await.unwrap() })
        }

        fn void_after(&self, _: Time, limit: Time) -> Time {
            limit
        }

        fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
            self.memory.clone().subscribe(topic, sink)
        }
    }

    #[test]
    fn an_abandoned_acquire_is_undone_until_the_store_says_that_it_cannot_be_executed_any_more() {
        let [connect_timeout, response_timeout] = [400, 100].map(Duration::from_millis);
        let options = ConnectOptions { connect_timeout, response_timeout, ..ConnectOptions::default() };
        let memory = blocking::Client::open(Some("memory://tardy"), options.clone()).unwrap();
        let mut uri = crate::uri::Uri::parse("memory://tardy", options).unwrap();
        let has_executed = Arc::<AtomicBool>::default();
        let store = Tardy { memory: crate::stores::open(&mut uri).unwrap(), has_executed: has_executed.clone() };
        let engine = Engine::new(Arc::new(store), uri.connect).unwrap();
        let layout = engine.store.layouts()[0].clone();
        let entry = engine.entry(&layout, &"x".into(), &layout.key("x").unwrap());
        let wish = Wish::new(AcquireOptions::default(), None);
        let (ask, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
        let mut acquires = Box::pin(engine.perform_async(&entry, effects, None));
        assert!(acquires.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(acquires);
        let effects = entry.cancel(&engine, ask.task, &waiter);
        engine.perform_in_background(&entry, effects);
        while !(entry.is_idle() && has_executed.load(Ordering::SeqCst)) {
            std::thread::yield_now();
        }
        assert!(memory.inspect("x").unwrap().holder.is_none());
    }

    /// A lock whose grant is answered when its first renewal is due is told at once, with what is left of its lease.
    fn granted_late(space: &str, perform: impl FnOnce(&Engine, &Arc<Entry>, Effects)) {
        let (ttl, delay) = (Duration::from_secs(3), Duration::from_millis(1200));
        let engine = Slow::client(space, delay);
        let layout = engine.store.layouts()[0].clone();
        let (name, key): (Arc<str>, _) = ("x".into(), layout.key("x").unwrap());
        let entry = engine.entry(&layout, &name, &key);
        let options = AcquireOptions { ttl, ..AcquireOptions::default() };
        let wish = Wish::new(options, None);
        let begun = clock::now();
        let (_, waiter, effects) = begin(&engine, &entry, &wish, &"".into(), None);
        perform(&engine, &entry, effects);
        let took = clock::now().since(begun);
        let Some(Settled::Granted { hold, .. }) = waiter.take() else { panic!("it is free") };
        assert!(took >= delay && took < delay * 3 / 2, "{took:?}");
        assert!(!hold.remaining().is_zero());
    }

    #[test]
    fn a_thread_has_its_lock_before_the_renewal_that_is_due_with_it() {
        granted_late("memory://late-thread", |engine, entry, effects| engine.perform(entry, effects, None));
    }

    #[test]
    fn a_task_has_its_lock_before_the_renewal_that_is_due_with_it() {
        granted_late("memory://late-task", |engine, entry, effects| {
            runtime::handle().unwrap().block_on(engine.perform_async(entry, effects, None));
        });
    }

    #[test]
    fn a_lock_whose_lease_is_over_when_its_grant_is_taken_up_is_not_returned() {
        let client = blocking::Client::open(Some("memory://taken-up-late"), ConnectOptions::default()).unwrap();
        let lock = client.lock("x").ttl(Duration::from_millis(20)).renew(false).build().unwrap();
        let (mut held, effects) = lock.start(None).unwrap();
        held.engine.perform(&held.entry, effects, None);
        let settled = held.waiter.take().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(held.conclude(settled).unwrap_err().kind(), Kind::Lost);
    }

    #[test]
    fn a_step_that_panics_ends_what_was_held_and_wanted_of_that_lock_and_of_no_other() {
        let client = blocking::Client::open(Some("memory://panics-in-a-step"), ConnectOptions::default()).unwrap();
        let (other, held) = (client.lock("y").acquire().unwrap(), taken(&client));
        let Some(Settled::Granted { hold, .. }) = held.waiter.take() else { panic!("it is free") };
        let (waits, effects) = client.lock("x").build().unwrap().start(None).unwrap();
        waits.engine.perform(&waits.entry, effects, None);
        let extended = Arc::<Waiter>::default();
        let unsent = held.entry.extend(&held.engine, &hold, Duration::from_secs(60), &extended);
        let effects = held.entry.breaks(&held.engine);
        held.engine.perform(&held.entry, effects, None);
        assert_eq!(hold.why_lost(), Some(crate::lease::LossReason::Expired));
        let failed = waits.waiter.take();
        assert!(
            matches!(&failed, Some(Settled::Refused(Refusal::Failed(error))) if error.kind() == Kind::Internal),
            "{failed:?}"
        );
        assert!(matches!(extended.take(), Some(Settled::Extended(false))));
        drop(unsent);
        assert!(other.is_held());
        let metrics = client.metrics();
        assert_eq!((metrics.held, metrics.waiting, metrics.lost.total()), (1, 0, 1));
        // It still lies at the store, and is to be had when somebody breaks it, or its ttl is over.
        let holder = client.inspect("x").unwrap().holder.unwrap();
        assert!(client.lock("x").try_acquire().unwrap().is_none());
        assert!(client.break_lock("x", Token::new(holder.last_token)).unwrap());
        let _ = client.lock("x").acquire().unwrap().release().unwrap();
    }

    #[test]
    fn without_randomness_nothing_is_asked_and_the_lock_is_as_it_was() {
        let client = blocking::Client::open(Some("memory://dry"), ConnectOptions::default()).unwrap();
        let (engine, entry) = {
            let held = taken(&client);
            (held.engine.clone(), held.entry.clone())
        };
        while !entry.is_idle() {
            std::thread::yield_now();
        }
        let requests = || client.metrics().requests;
        let before = requests();
        engine.dry.store(true, Ordering::Relaxed);
        let errors = [client.lock("x").acquire().unwrap_err(), client.lock("x").fair().acquire().unwrap_err()];
        assert!(errors.iter().all(|error| error.kind() == Kind::Internal && error.lock() == Some("x")), "{errors:?}");
        assert_eq!((requests(), client.metrics().waiting, entry.is_idle()), (before, 0, true));
        engine.dry.store(false, Ordering::Relaxed);
        let _ = client.lock("x").acquire().unwrap().release().unwrap();
    }

    #[test]
    fn without_randomness_a_lock_that_others_wait_for_is_given_back() {
        let client = blocking::Client::open(Some("memory://dry-yield"), ConnectOptions::default()).unwrap();
        let held = taken(&client);
        let Some(Settled::Granted { hold, .. }) = held.waiter.take() else { panic!("it is free") };
        let (waits, effects) = client.lock("x").build().unwrap().start(None).unwrap();
        waits.engine.perform(&waits.entry, effects, None);
        held.engine.dry.store(true, Ordering::Relaxed);
        let released = Arc::<Waiter>::default();
        let effects = held.entry.release(&held.engine, &hold, &released);
        held.engine.perform(&held.entry, effects, None);
        let told = waits.waiter.take();
        assert!(
            matches!(&told, Some(Settled::Refused(Refusal::Failed(error))) if error.kind() == Kind::Internal),
            "{told:?}"
        );
        // The background gives it back once somebody was told something.
        let outcome = released.park(Some(Duration::from_secs(20)));
        assert!(matches!(outcome, Some(Settled::Released(crate::lease::ReleaseOutcome::Released))), "{outcome:?}");
        assert!(client.inspect("x").unwrap().holder.is_none() && held.entry.is_idle());
    }

    /// A task of an event loop is granted a lock by the background's thread, is cancelled before that could tell it,
    /// and asks again.
    #[test]
    fn a_task_that_asks_again_while_its_grant_finds_nobody_does_not_wait_for_itself() {
        let client = blocking::Client::open(Some("memory://asks-again"), ConnectOptions::default()).unwrap();
        let lock = client.lock("x").build().unwrap().for_owner(OwnerId(7));
        let (gone, effects) = lock.start(None).unwrap();
        let (engine, entry) = (gone.engine.clone(), gone.entry.clone());
        let send = engine.perform_local(&entry, effects).remove(0);
        let answered = engine.heard(1, engine.store.call(&send.requests, engine.limit(clock::now(), None)));
        let untold = send.answered(&engine, &answered);
        assert!(untold.tells());
        drop(gone);
        let (again, effects) = lock.start(None).unwrap();
        engine.perform(&entry, effects, None);
        let told = again.waiter.take();
        assert!(told.is_none(), "{told:?}");
        engine.perform_in_background(&entry, untold);
        let told = again.waiter.park(Some(Duration::from_secs(20)));
        assert!(matches!(told, Some(Settled::Granted { .. })), "{told:?}");
    }

    #[test]
    fn a_grant_to_a_task_that_has_just_gone_is_given_back() {
        let client = blocking::Client::open(Some("memory://just-gone"), ConnectOptions::default()).unwrap();
        let held = taken(&client);
        let gone = held.entry.cancel(&held.engine, held.task, &held.waiter);
        held.engine.perform(&held.entry, gone, None);
        assert!(client.inspect("x").unwrap().holder.is_none());
    }
}
