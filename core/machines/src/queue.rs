//! The queue of one process for one lock: reentrancy, first come first served among its tasks, and hand-offs that never
//! leave the process.
//!
//! Written once for every store and pure. Tasks ask here; the queue sends one *contender* (a
//! [`Session`](crate::session::Session)) to the store for all of them, and one for each task that wants `fair`. While
//! its contender holds the lock, the queue passes it from task to task: at most as many as waited when it was granted,
//! at most a block of tokens, for at most a slice of time. Then the others get their turn.
//!
//! ```text
//!   event     state                             what happens
//!   --------  --------------------------------  -----------------------------------------------------------
//!   Acquire   held by the same owner            Grant, one level deeper
//!   Acquire   tries, anybody here has or asks   Refuse
//!   Acquire   nobody contends                   Contend
//!   Acquire   fair                              Contend, for this task alone
//!   Resume                                      Resume, for this task alone
//!   Cancel    waiting, the last one             Withdraw
//!   Granted   somebody still waits              Grant to the first (Serve when it wants other terms)
//!   Granted   nobody waits any more             GiveBack
//!   Release   deeper level                      Released(kept); RunOut when all that are left were forgotten
//!   Abandon   deeper level                      nothing: it is never released
//!   Abandon   the last that was not             RunOut
//!   Acquire   held by the same owner, runs out  Serve, Grant, one level deeper
//!   Release   not the hold in force             Released(expired): it cannot free the next holder
//!   Release   somebody waits, turn not over     Released, Serve, Grant to the next
//!   Release   somebody waits, turn over         Yield
//!   Release   somebody waits, lease in doubt    GiveBack, Contend
//!   Release   nobody waits                      GiveBack
//!   Export    the hold in force, one level      Export
//!   Export    deeper level, not in force        Released(kept), Released(expired)
//!   Lost      somebody waits                    Lost, Contend again at once
//!   Ended     refused, others wait              Refuse the one that tried, Contend for the others
//!   Ended     failed                            Refuse everybody it stood for
//!   Ended     another attempt can have it       Contend for those it stood for
//! ```

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use smallvec::SmallVec;

use crate::error::Error;
use crate::lease::ReleaseOutcome;
use crate::lent::{Lent, Pool};
use crate::protocol::AttemptId;
use crate::rank::Rank;
use crate::relative::Relative;
use crate::session::{CompactService, Service, claim};
use crate::time::Time;
use crate::token::Tokens;

mod resting;

pub(crate) use resting::{Known, Resting};

/// The longest turn of one process while others may wait: beyond it their p99 suffers (48 times the fair share at
/// blocks of 256 hand-offs, measured).
pub const SLICE: Duration = Duration::from_millis(1);

/// One acquisition wanted by one task; minted by the driver, never reused. There may be very many: where the ids of
/// a queue rise in the order in which its tasks ask, none is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// One hold of the lock, from its grant to its end: known by the task that it was granted to, whatever levels are
/// entered later. A fencing token is no name for it, since a layout may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl From<TaskId> for HoldId {
    fn from(task: TaskId) -> Self {
        HoldId(task.0)
    }
}

/// One session standing in for tasks at the store; minted here, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContenderId(pub u64);

/// Whose acquisitions count as one, for reentrancy; minted by the face, never an operating system's thread id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u64);

/// What a task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The task.
    pub task: TaskId,
    /// Its owner, when it may re-enter.
    pub owner: Option<OwnerId>,
    /// Whether it queues at the store by itself.
    pub fair: bool,
    /// How urgent its place there is.
    pub rank: Rank,
    /// Whether it only tries.
    pub tries: bool,
    /// When it gives up.
    pub deadline: Option<Time>,
    /// How it wants to hold.
    pub service: Service,
}

/// Why a task does not get the lock.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Somebody else holds it, and the task only tried.
    Taken,
    /// Its deadline passed. How many were ahead of it at most, by what the store said last: nothing where it says no
    /// such thing.
    TimedOut(Option<u32>),
    /// The contender failed.
    Failed(Error),
}

/// What the queue is told.
#[derive(Debug)]
pub enum Event {
    /// A task wants the lock.
    Acquire(Ask),
    /// A task takes over the lock that `secret` holds.
    Resume { ask: Ask, secret: AttemptId },
    /// A waiting task is gone.
    Cancel(TaskId),
    /// A contender got the lock, under these tokens if there are any.
    Granted { contender: ContenderId, tokens: Option<Tokens> },
    /// A holder gives back one level of its hold. `left` is how much longer the lease is believed to last, if nothing
    /// about it is in doubt.
    Release { hold: HoldId, left: Option<Duration> },
    /// The holder leaves the lock to `secret` for `ttl`.
    Export { hold: HoldId, secret: AttemptId, ttl: Duration },
    /// One level of the hold was forgotten: nobody will ever release it.
    Abandon { hold: HoldId },
    /// A contender's lease is lost.
    Lost(ContenderId),
    /// A contender is through: refused, failed, or withdrawn.
    Ended { contender: ContenderId, failure: Option<Error> },
    /// Time passed.
    Tick,
}

/// What the queue wants done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Start a contender.
    Contend { contender: ContenderId, wait: bool, fair: bool, rank: Rank, service: Service },
    /// Start a contender that takes the lock over from `secret`.
    Resume { contender: ContenderId, secret: AttemptId, service: Service },
    /// The contender's lease is now held on these terms.
    Serve { contender: ContenderId, service: Service },
    /// Give the lock back, which ends `hold`, and contend again, in one request if possible; `used` is the highest
    /// token used, 0 where there are none.
    Yield { contender: ContenderId, hold: HoldId, used: u64, service: Service },
    /// Every level of the hold that was not released was forgotten: nothing is to prolong the lease.
    RunOut { contender: ContenderId, hold: HoldId },
    /// Give the lock back, which ends `hold`, if somebody took the grant up; `used` as above.
    GiveBack { contender: ContenderId, hold: Option<HoldId>, used: u64 },
    /// Leave the lock to `secret` for `ttl`, which ends `hold`; `used` as above.
    Export { contender: ContenderId, hold: HoldId, used: u64, secret: AttemptId, ttl: Duration },
    /// Nobody wants the contender's lock any more.
    Withdraw(ContenderId),
    /// The task holds the lock; `depth` counts its owner's levels from 1.
    Grant { task: TaskId, hold: HoldId, token: Option<NonZeroU64>, depth: u32, contender: ContenderId },
    /// The task does not get it.
    Refuse { task: TaskId, why: Refusal },
    /// Answer to a release that the store need not hear of.
    Released { hold: HoldId, outcome: ReleaseOutcome },
    /// The hold is lost.
    Lost { hold: HoldId },
}

#[derive(Clone, Debug, Hash)]
struct Contender {
    id: ContenderId,
    /// The one task it stands for; `None` for the contender of all tasks that are not fair.
    fair_for: Option<TaskId>,
    /// The task that only tried, when that is why it was sent.
    tried_by: Option<TaskId>,
    service: CompactService,
}

/// The task that holds the lock now.
#[derive(Clone, Debug, Hash)]
struct Hold {
    id: HoldId,
    contender: ContenderId,
    /// `None` where the layout has no tokens.
    token: Option<NonZeroU64>,
    owner: Option<OwnerId>,
    depth: u32,
    /// How many of its levels were forgotten.
    abandoned: u32,
}

impl Hold {
    /// The highest token that was used, 0 where there are none.
    fn used(&self) -> u64 {
        self.token.map_or(0, NonZeroU64::get)
    }
}

/// This process's present turn.
#[derive(Clone, Debug)]
struct Turn {
    ends: Time,
    /// How many may hold in it yet, who holds now among them: as many as waited when it began, and as there are tokens
    /// set aside for.
    holders_left: NonZeroU32,
}

/// The memory in which contenders, waiting tasks and actions gather.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    own: Pool<Contender>,
    waiting: Pool<Ask>,
    waiting_fairly: Pool<Ask>,
    actions: Pool<Action>,
}

/// Where it stands that belongs to `task`: found at once in a list whose tasks came in the order of their ids.
pub(crate) fn place<T: 'static>(list: &Lent<T>, task: TaskId, of: impl Fn(&T) -> Option<TaskId>) -> Option<usize> {
    let by_order = list.binary_search_by_key(&Some(task), &of).ok();
    by_order.or_else(|| list.iter().position(|one| of(one) == Some(task)))
}

fn waits(ask: &Ask) -> Option<TaskId> {
    Some(ask.task)
}

/// See the [module's table](self).
#[derive(Clone, Debug)]
pub struct Queue {
    block: u64,
    next_contender: u64,
    /// The contender of all tasks that are not fair.
    shared: Option<Contender>,
    /// Those of one task each, the oldest and so the lowest id first. There may be very many.
    own: Lent<Contender>,
    /// Tasks that are not fair.
    waiting: Lent<Ask>,
    waiting_fairly: Lent<Ask>,
    #[allow(clippy::box_collection, reason = "one word instead of three, since a client may hold very many locks")]
    deadlines: Option<Box<BTreeSet<(Time, TaskId)>>>,
    hold: Option<Hold>,
    turn: Option<Turn>,
    actions: Lent<Action>,
}

impl Queue {
    /// A queue over a layout whose grants reserve `block` tokens: 1 makes each holder a fresh acquisition.
    pub fn new(block: u64) -> Self {
        Queue {
            block,
            next_contender: 0,
            shared: None,
            own: Lent::new(),
            waiting: Lent::new(),
            waiting_fairly: Lent::new(),
            deadlines: None,
            hold: None,
            turn: None,
            actions: Lent::new(),
        }
    }

    /// Takes one event. Afterwards [`poll_action`](Self::poll_action) and [`poll_timeout`](Self::poll_timeout) may have
    /// changed; nothing else changes them.
    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Acquire(ask) => self.acquire(ask),
            Event::Resume { ask, secret } => self.resume(ask, secret),
            Event::Cancel(task) => self.cancel(task),
            Event::Granted { contender, tokens } => self.granted(now, contender, tokens),
            Event::Release { hold, left } => self.release(now, hold, left),
            Event::Export { hold, secret, ttl } => self.export(hold, secret, ttl),
            Event::Abandon { hold } => self.abandon(hold),
            Event::Lost(contender) => self.lost(contender),
            Event::Ended { contender, failure } => self.ended(contender, failure),
            Event::Tick => self.expire(now),
        }
    }

    /// The next thing to do; drain it after every [`handle`](Self::handle).
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Lends the memory in which tasks and actions gather, before [`handle`](Self::handle). Whoever drives very many
    /// queues lends the same to each in turn, so that none keeps its own.
    pub fn lend(&mut self, scratch: &mut Scratch) {
        scratch.waiting.lend(&mut self.waiting);
        scratch.waiting_fairly.lend(&mut self.waiting_fairly);
        scratch.actions.lend(&mut self.actions);
    }

    /// Takes the memory back that is not in use, after the last action.
    pub fn reclaim(&mut self, scratch: &mut Scratch) {
        scratch.waiting.take_back(&mut self.waiting);
        scratch.waiting_fairly.take_back(&mut self.waiting_fairly);
        scratch.actions.take_back(&mut self.actions);
    }

    /// The earliest deadline of a waiting task.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.first_deadline().map(|(at, _)| at)
    }

    fn first_deadline(&self) -> Option<(Time, TaskId)> {
        self.deadlines.as_ref()?.first().copied()
    }

    /// Whether nobody holds, waits or contends.
    pub fn is_idle(&self) -> bool {
        let nobody_waits = self.waiting.is_empty() && self.waiting_fairly.is_empty();
        self.hold.is_none() && nobody_waits && self.shared.is_none() && self.own.is_empty()
    }

    /// The contender whose lease this hold is, if it is still in force.
    pub fn holder(&self, id: HoldId) -> Option<ContenderId> {
        self.hold.as_ref().filter(|hold| hold.id == id).map(|hold| hold.contender)
    }

    /// The hold in force.
    pub fn held(&self) -> Option<HoldId> {
        self.hold.as_ref().map(|hold| hold.id)
    }

    /// The token of the hold in force, where the layout has tokens.
    pub fn held_token(&self) -> Option<u64> {
        self.hold.as_ref()?.token.map(NonZeroU64::get)
    }

    /// The contender of all tasks that are not fair, while there is one.
    pub fn shared_contender(&self) -> Option<ContenderId> {
        self.shared.as_ref().map(|shared| shared.id)
    }

    /// The contender that stands for the fair `task` alone, while it waits.
    pub fn contender_for(&self, task: TaskId) -> Option<ContenderId> {
        let at = place(&self.own, task, |own| own.fair_for)?;
        self.own.get(at).map(|own| own.id)
    }

    /// The waiting tasks that queue at the store by themselves, and are in no hurry.
    pub fn waiting_fairly(&self) -> impl Iterator<Item = TaskId> {
        self.waiting_fairly.iter().filter(|ask| !ask.tries).map(|ask| ask.task)
    }

    /// How many tasks wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.waiting_fairly.len()
    }

    fn acquire(&mut self, ask: Ask) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| ask.owner.is_some() && hold.owner == ask.owner) {
            let Some(deeper) = hold.depth.checked_add(1) else {
                let message = "its owner has entered it as often as can be counted; release what it holds";
                return self.refuse(ask.task, Refusal::Failed(Error::unsupported("acquire", message)));
            };
            let runs_out = hold.depth == hold.abandoned;
            hold.depth = deeper;
            let Hold { id, contender, token, depth, .. } = *hold;
            if runs_out {
                self.serve(contender, ask.service);
            }
            return self.actions.push_back(Action::Grant { task: ask.task, hold: id, token, depth, contender });
        }
        if ask.tries && !self.is_idle() {
            return self.refuse(ask.task, Refusal::Taken);
        }
        if let Some(deadline) = ask.deadline {
            self.deadlines.get_or_insert_default().insert((deadline, ask.task));
        }
        if ask.fair {
            self.waiting_fairly.push_back(ask);
            self.contend(Some(ask.task), ask);
        } else {
            self.waiting.push_back(ask);
            self.contend_for_the_rest();
        }
    }

    fn contend(&mut self, fair_for: Option<TaskId>, ask: Ask) {
        let contender = self.add_contender(fair_for, &ask);
        let (wait, fair) = (!ask.tries, fair_for.is_some());
        self.actions.push_back(Action::Contend { contender, wait, fair, rank: ask.rank, service: ask.service });
    }

    fn add_contender(&mut self, fair_for: Option<TaskId>, ask: &Ask) -> ContenderId {
        let id = ContenderId(self.next_contender);
        self.next_contender += 1;
        let tried_by = ask.tries.then_some(ask.task);
        let contender = Contender { id, fair_for, tried_by, service: ask.service.into() };
        match fair_for {
            Some(_) if self.own.is_empty() => {
                // Most have one at most.
                self.own.reserve_exact(1);
                self.own.push_back(contender);
            }
            Some(_) => self.own.push_back(contender),
            None => self.shared = Some(contender),
        }
        id
    }

    /// Whatever is held or wanted here, the store decides; what it gives is this task's alone, as if it were fair.
    fn resume(&mut self, ask: Ask, secret: AttemptId) {
        let ask = Ask { fair: true, tries: true, deadline: None, ..ask };
        self.waiting_fairly.push_back(ask);
        let contender = self.add_contender(Some(ask.task), &ask);
        self.actions.push_back(Action::Resume { contender, secret, service: ask.service });
    }

    fn export(&mut self, id: HoldId, secret: AttemptId, ttl: Duration) {
        match self.hold.take_if(|hold| hold.id == id && hold.depth == 1) {
            Some(hold) => {
                let (contender, used) = (hold.contender, hold.used());
                self.part_with(contender, Action::Export { contender, hold: id, used, secret, ttl });
            }
            None => {
                let deeper = self.hold.as_ref().filter(|hold| hold.id == id);
                let outcome = deeper.map_or(ReleaseOutcome::Expired, |hold| ReleaseOutcome::Kept(hold.depth));
                self.actions.push_back(Action::Released { hold: id, outcome });
            }
        }
    }

    fn contend_for_the_rest(&mut self) {
        if self.shared.is_none()
            && let Some(ask) = self.waiting.front().copied()
        {
            self.contend(None, ask);
        }
    }

    fn contender(&mut self, id: ContenderId) -> Option<&mut Contender> {
        if self.shared.as_ref().is_some_and(|shared| shared.id == id) {
            return self.shared.as_mut();
        }
        let at = self.own.binary_search_by_key(&id, |own| own.id).ok()?;
        self.own.get_mut(at)
    }

    fn remove_contender(&mut self, id: ContenderId) -> Option<Contender> {
        if let Some(shared) = self.shared.take_if(|shared| shared.id == id) {
            return Some(shared);
        }
        let at = self.own.binary_search_by_key(&id, |own| own.id).ok()?;
        self.own.remove(at)
    }

    fn remove_waiting(&mut self, task: TaskId) -> Option<Ask> {
        let ask = match place(&self.waiting_fairly, task, waits) {
            Some(at) => self.waiting_fairly.remove(at)?,
            None => place(&self.waiting, task, waits).and_then(|at| self.waiting.remove(at))?,
        };
        if let (Some(deadline), Some(deadlines)) = (ask.deadline, &mut self.deadlines) {
            deadlines.remove(&(deadline, task));
            if deadlines.is_empty() {
                self.deadlines = None;
            }
        }
        Some(ask)
    }

    fn refuse(&mut self, task: TaskId, why: Refusal) {
        self.actions.push_back(Action::Refuse { task, why });
    }

    fn cancel(&mut self, task: TaskId) {
        let Some(ask) = self.remove_waiting(task) else { return };
        let holding = self.hold.as_ref().map(|hold| hold.contender);
        let useless = match ask.fair {
            true => self.contender_for(task),
            false => self.shared_contender().filter(|_| self.waiting.is_empty()),
        };
        if let Some(id) = useless.filter(|id| Some(*id) != holding) {
            self.remove_contender(id);
            self.actions.push_back(Action::Withdraw(id));
        }
    }

    fn granted(&mut self, now: Time, id: ContenderId, tokens: Option<Tokens>) {
        let first = tokens.map_or(0, Tokens::first);
        let Some(contender) = self.contender(id).cloned() else {
            return self.actions.push_back(Action::GiveBack { contender: id, hold: None, used: first });
        };
        if let Some(hold) = self.hold.take() {
            // The store gave the lock to this contender, so the hold before it is over, whatever its own session knows.
            self.actions.push_back(Action::Lost { hold: hold.id });
            self.remove_contender(hold.contender);
        }
        let next = match contender.fair_for {
            Some(task) => place(&self.waiting_fairly, task, waits).and_then(|at| self.waiting_fairly.get(at)).copied(),
            None => self.waiting.front().copied(),
        };
        let Some(ask) = next else { return self.give_back(id, None, first) };
        let waiting = if ask.fair { 0 } else { self.waiting.len() };
        // What has no tokens is handed on by nobody.
        let block = self.block.min(tokens.map_or(1, |tokens| (tokens.last() - first).saturating_add(1)));
        let holders = u32::try_from(block.min(waiting as u64)).unwrap_or(u32::MAX);
        let holders_left = NonZeroU32::new(holders).unwrap_or(NonZeroU32::MIN);
        self.turn = Some(Turn { ends: now.after(SLICE), holders_left });
        if contender.service.get() != ask.service {
            self.serve(id, ask.service);
        }
        self.grant(id, ask, NonZeroU64::new(first));
    }

    fn grant(&mut self, contender: ContenderId, ask: Ask, token: Option<NonZeroU64>) {
        self.remove_waiting(ask.task);
        let id = ask.task.into();
        self.hold = Some(Hold { id, contender, token, owner: ask.owner, depth: 1, abandoned: 0 });
        self.actions.push_back(Action::Grant { task: ask.task, hold: id, token, depth: 1, contender });
    }

    fn serve(&mut self, id: ContenderId, service: Service) {
        if let Some(contender) = self.contender(id) {
            contender.service = service.into();
        }
        self.actions.push_back(Action::Serve { contender: id, service });
    }

    fn give_back(&mut self, contender: ContenderId, hold: Option<HoldId>, used: u64) {
        self.part_with(contender, Action::GiveBack { contender, hold, used });
    }

    /// The contender is nobody's here any more, once `how` is done.
    fn part_with(&mut self, contender: ContenderId, how: Action) {
        self.remove_contender(contender);
        self.turn = None;
        self.actions.push_back(how);
        self.contend_for_the_rest();
    }

    fn release(&mut self, now: Time, hold: HoldId, left: Option<Duration>) {
        let Some(held) = self.hold.as_mut().filter(|held| held.id == hold) else {
            return self.actions.push_back(Action::Released { hold, outcome: ReleaseOutcome::Expired });
        };
        held.depth -= 1;
        if held.depth > 0 {
            let outcome = ReleaseOutcome::Kept(held.depth);
            self.actions.push_back(Action::Released { hold, outcome });
            return self.run_out_if_forgotten();
        }
        let (id, token, used) = (held.contender, held.token, held.used());
        self.hold = None;
        let is_shared = self.shared.as_ref().is_some_and(|shared| shared.id == id);
        match self.waiting.front().copied().filter(|_| is_shared) {
            Some(ask) if self.may_hand_on(now, left, &ask) => {
                self.actions.push_back(Action::Released { hold, outcome: ReleaseOutcome::Released });
                // Also when it wants the same: the one before may have extended its hold.
                self.serve(id, ask.service);
                self.grant(id, ask, token.and_then(|token| token.checked_add(1)));
            }
            // What is in doubt is not yielded, and is not over before nothing of it can be executed any more.
            Some(ask) if left.is_some() => self.yield_to(id, hold, used, ask),
            _ => self.give_back(id, Some(hold), used),
        }
    }

    /// Whoever forgets a guard may yet be at work under it: the lock is not given back, and lasts as long as a level is
    /// left that is not forgotten.
    fn abandon(&mut self, id: HoldId) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.id == id && hold.abandoned < hold.depth) {
            hold.abandoned += 1;
            self.run_out_if_forgotten();
        }
    }

    fn run_out_if_forgotten(&mut self) {
        if let Some(&Hold { contender, id, .. }) = self.hold.as_ref().filter(|hold| hold.abandoned == hold.depth) {
            self.actions.push_back(Action::RunOut { contender, hold: id });
        }
    }

    fn may_hand_on(&mut self, now: Time, left: Option<Duration>, to: &Ask) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        let enough = left.is_some_and(|left| left >= claim(to.service.ttl) / 2);
        match NonZeroU32::new(turn.holders_left.get() - 1) {
            Some(left) if enough && now < turn.ends => turn.holders_left = left,
            _ => return false,
        }
        true
    }

    fn yield_to(&mut self, id: ContenderId, hold: HoldId, used: u64, ask: Ask) {
        self.turn = None;
        if let Some(contender) = self.contender(id) {
            contender.service = ask.service.into();
            contender.tried_by = None;
        }
        self.actions.push_back(Action::Yield { contender: id, hold, used, service: ask.service });
    }

    fn lost(&mut self, id: ContenderId) {
        if let Some(hold) = self.hold.take_if(|hold| hold.contender == id) {
            self.turn = None;
            self.actions.push_back(Action::Lost { hold: hold.id });
        }
        self.remove_contender(id);
        self.contend_for_the_rest();
    }

    fn ended(&mut self, id: ContenderId, failure: Option<Error>) {
        let Some(contender) = self.remove_contender(id) else { return };
        if let Some(error) = failure {
            let tasks: SmallVec<[TaskId; 4]> = match contender.fair_for {
                Some(task) => SmallVec::from_iter([task]),
                None => self.waiting.iter().map(|ask| ask.task).collect(),
            };
            for task in tasks {
                if self.remove_waiting(task).is_some() {
                    self.refuse(task, Refusal::Failed(error.clone()));
                }
            }
        } else if let Some(task) = contender.tried_by {
            if self.remove_waiting(task).is_some() {
                self.refuse(task, Refusal::Taken);
            }
        } else if let Some(at) = contender.fair_for.and_then(|task| place(&self.waiting_fairly, task, waits))
            && let Some(ask) = self.waiting_fairly.get(at).copied()
        {
            self.contend(Some(ask.task), ask);
        }
        self.contend_for_the_rest();
    }

    fn expire(&mut self, now: Time) {
        while let Some((at, task)) = self.first_deadline()
            && at <= now
        {
            self.cancel(task);
            self.refuse(task, Refusal::TimedOut(None));
        }
    }

    /// Feeds everything that later answers depend on to `state`, in the names of `view`.
    pub fn fingerprint(&self, view: &impl Relative, state: &mut impl Hasher) {
        (self.block, &self.shared, self.own.len(), self.waiting.len(), self.waiting_fairly.len()).hash(state);
        (&*self.own, self.hold.is_some()).hash(state);
        for ask in self.waiting.iter().chain(self.waiting_fairly.iter()) {
            (ask.task, ask.owner, ask.fair, ask.rank, ask.tries, ask.service).hash(state);
            ask.deadline.map(|at| view.ahead(at)).hash(state);
        }
        if let Some(hold) = &self.hold {
            let token = hold.token.map(|token| view.token(token.get()));
            (hold.id, hold.contender, token, hold.owner, hold.depth, hold.abandoned).hash(state);
        }
        self.turn.as_ref().map(|t| (view.ahead(t.ends), t.holders_left)).hash(state);
    }
}
