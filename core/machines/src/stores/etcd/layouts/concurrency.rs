//! The layout of `concurrency.Mutex` of etcd's Go client (read from 3.4 and 3.6), which `etcdctl lock` and the server's
//! lock service share.
//!
//! Every contender puts a key below the lock, under its client's lease; whose key was created first holds the lock,
//! and that revision is its token. Readers and writers, and those who want permits, stand in line in the same way:
//! what their keys are called, and how many at the head hold, is in [`super::part`]. Go names its keys by their lease;
//! ours are named by an attempt's [seat]: the order is all that counts. What stands in a key says whose
//! it is, so a client's attempts never take one another's, however late their requests come, and all of them share one
//! lease.
//!
//! Where this differs from Go, what others see stays the same: the queue is read in the transaction that joins it; who
//! waits hears of deletions by one watch on all of the queue, and is the holder when all that were ahead in a look are
//! deleted after it, without asking again; a mere try puts nothing while somebody is there. Calls and answers:
//! [`super`].
//!
//! A watch that begins at a revision of the past is served every 100 ms only, so it begins with what comes: a look must
//! be at least as new as the watch.
//!
//! ```text
//! acquire    input                               next
//! (begin)    new attempt, waiting                Asking: acquire
//!            new, trying                         Asking: try (for permits: look)
//!            new, an earlier one to give back    Asking: yield (trying, or an acquire of that may come: GivingBack)
//!            same attempt again                  Asking: look (Removing: the same; an acquire may come for a seat: Moving: undo)
//!            the same, the earlier may be there  GivingBack: release that (an acquire of it may come: undo)
//! Asking     a yield is refused                  GivingBack: the same
//!            Fenced                              Asking: the same
//!            another has that key                Asking: the same, under a name of its own
//!            queue                               queue
//! queue      mine is not there: waiting, or room   Asking: acquire (a first look that only tries: try)
//!            mine is not there, trying           held
//!            mine is of another lease            Removing, then Asking: look
//!            one ahead is in the way for good    Removing, then failed
//!            room behind all ahead               granted
//!            no room, trying                     Removing, then held
//!            room, as far as is shown            Asking: look, for more
//!            no room                             Watching: watch
//! Watching   begun after the look                Asking: look
//!            mine went, or some may be missed    Asking: look
//!            it stands                           Waiting, or at once what was told meanwhile
//! Waiting    room behind those who are left      granted (Asking: look, where not all were shown, and for a latch)
//!            mine is gone | some may be missed   Asking: look
//! Removing   released                            as said
//! Moving     undone                              Asking: acquire, under a name of its own
//! GivingBack released                            Asking: acquire (trying: try)
//!
//! renew      exists: same creation, own lease -> renewed; otherwise gone
//! release    release mine; undo, where an acquire may yet come
//! undo       delete mine; undo, where an acquire may yet come; before that release the earlier one, as GivingBack
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::giving::{Given, delete, is_of_ended_lease};
use super::part::{Part, holding};
use super::seat::{self, Seat, Seats};
use super::{ACQUIRE, DELETE, EXISTS, LOOK, TRY, UNDO, WATCH, YIELD};
use super::{Entry, Queue, doing, first, garbled, int, is, list, number, on_keys, plan_args, queue, release};
use crate::error::{Error, Kind, Result};
use crate::gate::LatchPlan;
use crate::lease::ReleaseOutcome;
use crate::protocol::{
    Arg, AttemptId, Call, Change, Grant, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent,
    Term, Terms, Traits, Verdict, Wait,
};
use crate::share::Primitive;
use crate::token::Tokens;

/// How many keys of a queue a look shows, the last ones up to the own: whoever stands further back looks again when
/// these are gone. In a long queue they go last of all that are ahead, so that each contender looks once more, when it
/// is its turn.
pub const SHOWN: i64 = 32;
/// A queue that changes under each of so many looks in a row is left alone for a while; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 32;
/// More deletions than this while an answer is on its way count as missed.
const MAX_TOLD: usize = 256;
/// A watch that is younger may tell of a deletion late (by up to 100 ms, once): some servers take it for one of the
/// past.
const YOUNG: Duration = Duration::from_millis(150);
/// So somebody who waits looks after so long, and once more.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(20)];
/// The longest that nobody looks: only an event that was lost makes a difference.
const PATIENCE: Duration = Duration::from_secs(30);

/// For how long nobody need look by whose watch is of this `age` and who has looked so often since it was set.
pub(super) fn pause(age: i64, looks: &mut u8) -> Duration {
    let is_young = u128::try_from(age).is_ok_and(|age| age < YOUNG.as_millis());
    let soon = LOOKS.get(usize::from(*looks)).filter(|_| is_young);
    *looks += u8::from(soon.is_some());
    soon.copied().unwrap_or(PATIENCE)
}

/// The `concurrency` layout as a machine: one contender for one lock, or for a part of what several share.
#[derive(Clone, Debug, Hash)]
pub struct Concurrency {
    lock: Arc<str>,
    part: Part,
    /// How long the client's lease lasts: no hold can be asked to last longer.
    lease: Duration,
    contender: Option<Contender>,
    /// Taken by the contender, while there is one that may have left something.
    seat: Seat,
    /// The attempt that contended last, and where it sat; none if that has a label, and a name for itself.
    last: Option<Sat>,
    /// What the attempt that is undone was to give back.
    given: Option<Box<Given>>,
    renewing: bool,
    /// The attempt for which a release was begun last; a second one cannot tell who deleted the key.
    released: Option<AttemptId>,
    /// Whether the release under way is such a second one.
    releases_again: bool,
    /// Whose release or undo is under way.
    ends: Option<Terms>,
    /// The latch that is made, if there is none.
    latch: Option<LatchPlan>,
}

/// Where an attempt sat: it leaves once, however often it is undone.
#[derive(Clone, Copy, Debug, Hash)]
struct Sat {
    attempt: AttemptId,
    seat: AttemptId,
    has_left: bool,
}

impl Concurrency {
    /// A contender for the lock kept under `lock`, of a client whose lease lasts for `lease`.
    pub fn new(lock: Arc<str>, lease: Duration) -> Self {
        Self::of(lock, lease, Part::Lock)
    }

    /// The same for a part of what is kept there.
    pub fn of(lock: Arc<str>, lease: Duration, part: Part) -> Self {
        Concurrency {
            lock,
            part,
            lease,
            contender: None,
            seat: Seat::default(),
            last: None,
            given: None,
            renewing: false,
            released: None,
            releases_again: false,
            ends: None,
            latch: None,
        }
    }

    /// Whoever waits for the latch kept there, which is as `plan` says if there is none.
    pub fn waiting(lock: Arc<str>, lease: Duration, plan: LatchPlan) -> Self {
        Concurrency { latch: Some(plan), ..Self::of(lock, lease, Part::Wait) }
    }

    /// The same, whose seat is one of these.
    pub fn seated(mut self, seats: &Arc<dyn Seats>) -> Self {
        self.seat = Seat::of(seats);
        self
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        match intent {
            Intent::Acquire { terms, wait, prev } => match &mut self.contender {
                Some(contender) if contender.terms.attempt == terms.attempt => contender.again(wait),
                _ => {
                    let given = prev.map(|prev| Box::new(self.given(&prev.terms)));
                    let seat = tag(&terms).map(|_| self.sit_down(terms.attempt, given.as_deref()));
                    self.last = seat.map(|seat| Sat { attempt: terms.attempt, seat, has_left: false });
                    self.given = None;
                    let seat = seat.unwrap_or(terms.attempt);
                    let contender = Contender::new(&self.lock, self.part, self.latch, terms, seat, wait);
                    self.contender.insert(Contender { given, ..contender }).begin()
                }
            },
            Intent::Renew { ttl, .. } if ttl > self.lease => {
                let message = "a lock on etcd lasts as long as its client's lease; give a longer ttl in the address";
                Err(Error::unsupported("renew", message))
            }
            Intent::Renew { terms, .. } => {
                let Some(contender) = self.contender(terms.attempt).filter(|contender| contender.own.is_some()) else {
                    return Err(Error::new(Kind::Internal, "renew", "this attempt holds nothing"));
                };
                let request = on_keys(&EXISTS, &self.lock, [contender.key.clone()]);
                self.renewing = true;
                Ok(ask([request]))
            }
            Intent::Release { terms, .. } => {
                self.releases_again = self.released.replace(terms.attempt) == Some(terms.attempt);
                self.ends = Some(terms.clone());
                let known = self.contender(terms.attempt).filter(|contender| !contender.may_come());
                let own = known.and_then(|contender| Some((&contender.key, contender.own?)));
                Ok(ask([match own {
                    Some((key, own)) => release(&self.lock, key, own.create),
                    None => self.delete(&UNDO, &terms),
                }]))
            }
            Intent::Undo { terms, prev } => {
                let settled = self.contender(terms.attempt).is_some_and(|contender| !contender.may_come());
                // Else what is told while this is done would still grant.
                let contender = self.contender.take_if(|contender| contender.terms.attempt == terms.attempt);
                if let Some(contender) = contender {
                    self.given = contender.given;
                }
                if self.given.as_ref().map(|given| given.attempt) != prev.as_ref().map(|prev| prev.terms.attempt) {
                    self.given = prev.map(|prev| Box::new(self.given(&prev.terms)));
                }
                self.ends = Some(terms.clone());
                // The earlier key goes first: then no yield comes that puts the own one.
                let own = self.delete(if settled { &DELETE } else { &UNDO }, &terms);
                let given =
                    self.given.iter().filter(|given| given.is_there()).map(|given| given.request(&UNDO, &self.lock));
                Ok(Step::Ask(given.chain([own]).collect()))
            }
        }
    }

    /// A seat for this attempt: no transaction puts and deletes one key.
    fn sit_down(&mut self, attempt: AttemptId, given: Option<&Given>) -> AttemptId {
        let seat = self.seat.take(attempt);
        if given.is_some_and(|given| given.seat == Some(seat)) { attempt } else { seat }
    }

    /// What is known of the attempt that contended last and is to be given back; of any other one only what it was
    /// called.
    fn given(&self, terms: &Terms) -> Given {
        let known = self.contender(terms.attempt).filter(|contender| !contender.may_come());
        Given {
            attempt: terms.attempt,
            key: self.key_of(terms.attempt),
            seat: self.last.filter(|sat| sat.attempt == terms.attempt).map(|sat| sat.seat),
            create: known.and_then(|contender| contender.own).map(|own| own.create),
            tag: tag(terms),
            unsure: false,
            outcome: None,
        }
    }

    /// What an attempt calls its key.
    fn key_of(&self, attempt: AttemptId) -> Arc<str> {
        let seat = self.last.filter(|sat| sat.attempt == attempt).map_or(attempt, |sat| sat.seat);
        self.part.own_key(&self.lock, seat)
    }

    /// Deletes what this attempt has, if that is its own.
    fn delete(&self, call: &'static Call, terms: &Terms) -> Request {
        delete(call, &self.lock, self.key_of(terms.attempt), tag(terms))
    }

    fn ended(&mut self) {
        if let Some(terms) = &self.ends {
            self.left(terms.attempt);
        }
    }

    /// Nothing is left of this attempt.
    fn left(&mut self, attempt: AttemptId) {
        if let Some(sat) = self.last.as_mut().filter(|sat| sat.attempt == attempt && !sat.has_left) {
            sat.has_left = true;
            self.seat.leave(sat.seat);
        }
    }

    fn contender(&self, attempt: AttemptId) -> Option<&Contender> {
        self.contender.as_ref().filter(|contender| contender.terms.attempt == attempt)
    }

    fn answered(&mut self, reply: &Reply) -> Result<Step> {
        let Some(contender) = &mut self.contender else { return Ok(Step::Ignore) };
        let given = contender.gives().and_then(|given| given.seat);
        let step = contender.reply(reply);
        if let Some(sat) = &mut self.last {
            sat.seat = contender.seat;
        }
        if let Some(seat) = given.filter(|_| contender.gives().is_none()) {
            self.seat.leave(seat);
        }
        // Who only tried left nothing there.
        if matches!(step, Ok(Step::Done(Verdict::Held { .. }))) && !contender.may_come() {
            let attempt = contender.terms.attempt;
            self.left(attempt);
        }
        step
    }

    fn renewed(&mut self, reply: &Reply) -> Result<Step> {
        let own = self.contender.as_ref().and_then(|contender| contender.own);
        let (true, Some(own)) = (mem::take(&mut self.renewing), own) else { return Ok(Step::Ignore) };
        let found = match reply {
            Reply::Nil => None,
            other => match list("renew", other)? {
                [Reply::Int(lease), Reply::Int(create), Reply::Int(owner)] => Some((*lease, *create, *owner)),
                _ => return Err(garbled("renew")),
            },
        };
        Ok(Step::Done(match found {
            Some((lease, create, owner)) if lease == owner && number("renew", create)? == own.create => {
                Verdict::Renewed
            }
            _ => Verdict::Gone(ReleaseOutcome::Expired),
        }))
    }

    fn released(&mut self, reply: &Reply) -> Result<Step> {
        let deleted = int("release", reply)?;
        self.ended();
        Ok(Step::Done(Verdict::Released(match deleted {
            1 => ReleaseOutcome::Released,
            _ if self.releases_again => ReleaseOutcome::Unknown,
            2 if self.part == Part::Lock => ReleaseOutcome::StolenBy(String::new()),
            _ => ReleaseOutcome::Expired,
        })))
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        let reply = first(replies);
        match op {
            Op::Acquire => self.answered(reply),
            Op::Renew => self.renewed(reply),
            // A database that is full takes no fence, and no key that would be kept out by it.
            Op::Release | Op::Undo if replies.iter().any(|reply| is(reply, "NoSpace")) => {
                let given = self.given.iter().filter(|given| op == Op::Undo && given.is_there());
                let given = given.map(|given| given.request(&DELETE, &self.lock));
                Ok(Step::Ask(given.chain(self.ends.iter().map(|terms| self.delete(&DELETE, terms))).collect()))
            }
            Op::Release => self.released(reply),
            Op::Undo if replies.is_empty() => Err(garbled("undo")),
            Op::Undo => self.undone(replies),
        }
    }

    fn undone(&mut self, replies: &[Reply]) -> Result<Step> {
        for reply in replies.iter().filter(|reply| !is_of_ended_lease(reply)) {
            int("undo", reply)?;
        }
        self.ended();
        let given = self.given.as_mut().filter(|given| given.is_there());
        if let Some(seat) = given.and_then(|given| given.seat.take()) {
            self.seat.leave(seat);
        }
        Ok(Step::Done(Verdict::Undone))
    }
}

impl Protocol for Concurrency {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(event) => match (event, &mut self.contender) {
                (StoreEvent::Gone { path }, Some(contender)) => contender.told(path),
                (StoreEvent::Changed { path }, Some(contender)) => contender.missed(path),
                _ => Ok(Step::Ignore),
            },
        };
        step.unwrap_or_else(|error| Step::Done(Verdict::Failed(error)))
    }

    fn change(&mut self, _: Change) -> Step {
        let message = match self.part.primitive() {
            Some(Primitive::RwLock) => {
                "on etcd a writer cannot become a reader, nor a reader the writer: it would stand behind all who wait; \
                 release it, and acquire the other"
            }
            _ => "only a holder of a read/write lock can become a reader or the writer",
        };
        Step::Done(Verdict::Failed(Error::unsupported("change", message)))
    }

    fn keeps(&self, path: &str) -> bool {
        self.contender.as_ref().is_some_and(|contender| contender.own.is_some() && *contender.key == *path)
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: self.part == Part::Lock, push: Push::Watch, bound: true }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}

/// The own key as it is at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own {
    create: u64,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Asking(Asked),
    Watching(Line),
    Waiting(Line),
    /// The own key, which was created then.
    Removing(u64, Then),
    /// Undoing what it may have under a name that others may have.
    Moving,
    /// Deleting the key of the earlier hold.
    GivingBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Acquire,
    Try,
    /// Which also gives back the earlier hold.
    Yield,
    Look,
}

/// Who stood ahead when it was looked last, and is not known to have gone.
#[derive(Clone, Debug, Hash)]
struct Line {
    /// As of when.
    revision: u64,
    ahead: Vec<Arc<str>>,
    /// These are all.
    whole: bool,
    /// The own key went.
    gone: bool,
}

impl Line {
    /// Whether it makes a difference.
    fn told(&mut self, own: &str, revision: u64, key: &str) -> bool {
        if revision <= self.revision {
            return false;
        }
        let stood = self.ahead.len();
        self.gone |= *key == *own;
        self.ahead.retain(|ahead| **ahead != *key);
        self.gone || self.ahead.len() < stood
    }
}

#[derive(Clone, Debug, Hash)]
enum Then {
    Look,
    Held,
    Refuse(Refusal),
}

/// Why nobody can have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Refusal {
    /// This key is kept by no lease.
    NoLease(Arc<str>),
    /// The name is of this.
    Other(Part),
    /// It has fewer permits.
    TooMany(u32),
}

#[derive(Clone, Debug, Hash)]
struct Contender {
    terms: Terms,
    wait: bool,
    lock: Arc<str>,
    part: Part,
    latch: Option<LatchPlan>,
    seat: AttemptId,
    key: Arc<str>,
    /// When a key was created last that was certainly its own.
    created: Option<u64>,
    /// An acquire was sent and never answered: it may still be executed.
    doubt: bool,
    rounds: u8,
    /// How many keys a look shows.
    shown: i64,
    /// How often it looked after a young watch.
    looks: u8,
    own: Option<Own>,
    /// The earlier hold that it gives back, until it is told what became of that.
    given: Option<Box<Given>>,
    /// Deletions that came while a look was on its way.
    told: Vec<(u64, Arc<str>)>,
    /// There may have been others.
    missed: bool,
    at: At,
}

impl Contender {
    fn new(lock: &Arc<str>, part: Part, latch: Option<LatchPlan>, terms: Terms, seat: AttemptId, wait: bool) -> Self {
        let (lock, key) = (lock.clone(), part.own_key(lock, seat));
        let (shown, told, at) = (part.shown(SHOWN), Vec::new(), At::Rest);
        let (doubt, rounds, looks, missed) = (false, 0, 0, false);
        Contender {
            terms,
            wait,
            lock,
            part,
            latch,
            seat,
            key,
            created: None,
            doubt,
            rounds,
            shown,
            looks,
            own: None,
            given: None,
            told,
            missed,
            at,
        }
    }

    /// Whether an acquire may be executed yet, whatever is deleted. A yield cannot once the earlier key is.
    fn may_come(&self) -> bool {
        self.doubt || matches!(self.at, At::Asking(Asked::Acquire | Asked::Try))
    }

    /// The earlier hold, while its key may be there.
    fn gives(&self) -> Option<&Given> {
        self.given.as_deref().filter(|given| given.is_there())
    }

    fn begin(&mut self) -> Result<Step> {
        self.ask(match (self.gives(), self.part) {
            (Some(given), _) if self.wait && given.yields().is_some() => Asked::Yield,
            (Some(_), _) => return self.give_back(&UNDO),
            _ if self.wait => Asked::Acquire,
            // No transaction can count.
            (None, Part::Permits { .. }) => Asked::Look,
            _ => Asked::Try,
        })
    }

    fn again(&mut self, wait: bool) -> Result<Step> {
        self.doubt = self.may_come();
        let own = self.own.take();
        (self.wait, self.rounds) = (wait, 0);
        match mem::replace(&mut self.at, At::Rest) {
            // Its watch is all that can have ended: if everybody in a long line looked, nobody else would be served.
            At::Waiting(line) if wait && !line.whole && !line.gone => {
                self.own = own;
                self.watch(line)
            }
            // It may yet be executed: what it removes must not be what is granted.
            At::Removing(create, then) => self.remove(create, then),
            // A yield that was not answered can be executed for as long as that key is there.
            at if self.gives().is_some() => self.give_back_again(&at),
            // What is there under that name may be another's.
            _ if self.doubt && self.seat != self.terms.attempt => {
                let request = delete(&UNDO, &self.lock, self.key.clone(), tag(&self.terms));
                self.send(At::Moving, request)
            }
            _ => self.ask(Asked::Look),
        }
    }

    fn give_back(&mut self, call: &'static Call) -> Result<Step> {
        match self.gives().map(|given| given.request(call, &self.lock)) {
            Some(request) => self.send(At::GivingBack, request),
            None => self.begin(),
        }
    }

    /// What was asked last may have given it back.
    fn give_back_again(&mut self, asked: &At) -> Result<Step> {
        if let Some(given) = &mut self.given {
            given.unsure |= matches!(asked, At::Asking(Asked::Yield) | At::GivingBack);
        }
        self.give_back(&UNDO)
    }

    /// The earlier hold is over, which `deleted` counts.
    fn gave_back(&mut self, deleted: i64) {
        if let Some(given) = &mut self.given {
            given.is_gone(deleted);
        }
    }

    /// What became of the earlier hold, once.
    fn told_of_given(&mut self) -> Option<ReleaseOutcome> {
        self.given.take_if(|given| !given.is_there())?.outcome
    }

    /// From now on its key is called after itself, as no other ever is while it contends.
    fn move_on(&mut self) {
        self.seat = self.terms.attempt;
        self.key = self.part.own_key(&self.lock, self.seat);
        (self.own, self.created) = (None, None);
    }

    fn ask(&mut self, asked: Asked) -> Result<Step> {
        let (lock, key, limit) = (self.lock.clone(), Arg::Key(self.key.clone()), Arg::Int(self.shown));
        let put = |call| {
            Request::new(
                call,
                lock.clone(),
                [key.clone(), self.terms.card.clone().into(), limit.clone(), Arg::NotAfter],
            )
        };
        let mut request = match asked {
            Asked::Acquire => put(&ACQUIRE),
            Asked::Try => put(&TRY),
            Asked::Yield => {
                let mut request = put(&YIELD);
                if let Some((given, create)) = self.gives().and_then(|given| Some((given, given.yields()?))) {
                    let create = i64::try_from(create).unwrap_or(i64::MAX);
                    request.args.extend([Arg::Key(given.key.clone()), Arg::Int(create)]);
                }
                request
            }
            Asked::Look => {
                // What came later is of no concern, but for a latch that was made anew.
                let create = self.own.filter(|_| self.part != Part::Wait).map_or(0, |own| own.create);
                let create = i64::try_from(create).unwrap_or(i64::MAX);
                Request::new(&LOOK, self.lock.clone(), [key, limit, Arg::Int(create)])
            }
        };
        request.args.extend(self.part.queue(&self.lock).map(Arg::Key));
        request.args.extend(self.latch.into_iter().flat_map(plan_args));
        if asked != Asked::Look {
            request.args.extend(tag(&self.terms));
        }
        self.send(At::Asking(asked), request)
    }

    fn look(&mut self) -> Result<Step> {
        self.ask(Asked::Look)
    }

    fn send(&mut self, at: At, request: Request) -> Result<Step> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            let message = "the lock's queue changed each time it was looked at; try again";
            return Err(Error::new(Kind::Unavailable, "acquire", message));
        }
        self.at = at;
        Ok(ask([request]))
    }

    /// Removes the own key, if it is still the one that was created then: this attempt may put another.
    fn remove(&mut self, create: u64, then: Then) -> Result<Step> {
        self.own = None;
        let request = release(&self.lock, &self.key, create);
        self.send(At::Removing(create, then), request)
    }

    fn reply(&mut self, reply: &Reply) -> Result<Step> {
        match mem::replace(&mut self.at, At::Rest) {
            at @ (At::Rest | At::Waiting(_)) => {
                self.at = at;
                Ok(Step::Ignore)
            }
            At::Asking(Asked::Yield) if is_refused(reply) => self.give_back(&UNDO),
            At::Asking(asked) if is(reply, "Fenced") => self.ask(asked),
            At::Asking(asked) if is(reply, "Taken") => {
                self.move_on();
                self.ask(asked)
            }
            At::Moving => {
                if !is_of_ended_lease(reply) {
                    int("acquire", reply)?;
                }
                self.doubt = false;
                self.move_on();
                self.begin()
            }
            At::GivingBack => {
                if is(reply, "NoSpace") {
                    return self.give_back(&DELETE);
                }
                let deleted = match int("release", reply) {
                    Err(_) if is_of_ended_lease(reply) => 0,
                    answered => answered.inspect_err(|_| self.at = At::GivingBack)?,
                };
                self.gave_back(deleted);
                self.begin()
            }
            At::Asking(asked) => {
                let queue = match queue(Op::Acquire, reply) {
                    Ok(queue) => queue,
                    Err(error) => {
                        match asked {
                            Asked::Acquire | Asked::Try => self.doubt |= !is_refused(reply),
                            Asked::Yield => self.at = At::Asking(asked),
                            Asked::Look => {}
                        }
                        // Whoever gave it back is not to wait for what the next one cannot have.
                        let prev = if self.wait { self.told_of_given() } else { None };
                        return match prev {
                            Some(_) => Ok(Step::Wait(Wait { at: None, remaining: LOOKS[0], position: 0, prev })),
                            None => Err(error),
                        };
                    }
                };
                if asked == Asked::Yield {
                    self.gave_back(1);
                }
                self.placed(asked, &queue)
            }
            At::Watching(line) => {
                let [Reply::Int(since), Reply::Int(age)] = list(doing(Op::Acquire), reply)? else {
                    return Err(garbled(doing(Op::Acquire)));
                };
                let is_late = number(doing(Op::Acquire), *since)? > line.revision;
                if is_late || line.gone || mem::take(&mut self.missed) {
                    return self.look();
                }
                if self.has_room(&line.ahead) {
                    return self.moved_up(line.whole);
                }
                let waiting = line.ahead.len().saturating_sub(holding(self.parts(&line.ahead)));
                let position = u32::try_from(waiting).unwrap_or(u32::MAX);
                self.at = At::Waiting(line);
                Ok(Step::Wait(Wait {
                    at: None,
                    remaining: pause(*age, &mut self.looks).min(self.terms.ttl),
                    position,
                    prev: self.told_of_given(),
                }))
            }
            At::Removing(create, then) => {
                if let Err(error) = int("acquire", reply) {
                    self.at = At::Removing(create, then);
                    return Err(error);
                }
                match then {
                    Then::Held if self.wait => self.look(),
                    Then::Look => self.look(),
                    Then::Held => Ok(held(self.told_of_given())),
                    Then::Refuse(why) => Err(why.error(self.part)),
                }
            }
        }
    }

    fn parts<'a>(&'a self, keys: &'a [Arc<str>]) -> impl Iterator<Item = Part> + 'a {
        keys.iter().filter_map(|key| Part::of_key(&self.lock, key))
    }

    /// Whether whoever stands behind these holds.
    fn has_room(&self, ahead: &[Arc<str>]) -> bool {
        holding(self.parts(ahead).chain([self.part])) == ahead.len() + 1
    }

    /// Why it can never have it behind these, which are all or not.
    fn refusal(&self, ahead: &[&Entry], whole: bool) -> Option<Refusal> {
        let first = ahead.first().filter(|_| whole).and_then(|entry| Part::of_key(&self.lock, &entry.key));
        let of = |entry: &&&Entry| Part::of_key(&self.lock, &entry.key).map(Part::word);
        if let Some(entry) = ahead.iter().find(|entry| entry.lease == 0) {
            return Some(Refusal::NoLease(entry.key.clone()));
        }
        if let Some(entry) = ahead.iter().find(|entry| of(entry) != Some(self.part.word())) {
            return Part::of_key(&self.lock, &entry.key).map(Refusal::Other);
        }
        match (first, self.part) {
            (Some(Part::Permits { permits, .. }), Part::Permits { take, .. }) if take > permits => {
                Some(Refusal::TooMany(permits))
            }
            _ => None,
        }
    }

    fn placed(&mut self, asked: Asked, queue: &Queue) -> Result<Step> {
        let told = mem::take(&mut self.told);
        let whole = queue.entries.len() < usize::try_from(self.shown).unwrap_or(usize::MAX);
        let is_in_line = |entry: &&Entry| self.part != Part::Wait || Part::of_count(&entry.key).is_none();
        let contenders = queue.entries.iter().filter(|entry| Part::of_key(&self.lock, &entry.key).is_some());
        let contenders = contenders.filter(is_in_line);
        let contenders: Vec<_> = contenders.collect();
        let keys = |entries: &[&Entry]| entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>();
        let Some((create, lease)) = queue.own else {
            return match (asked, self.part) {
                _ if !self.wait && !self.has_room(&keys(&contenders)) => match self.refusal(&contenders, whole) {
                    Some(why) => Err(why.error(self.part)),
                    None => Ok(held(self.told_of_given())),
                },
                (Asked::Look, Part::Lock | Part::Read | Part::Write | Part::Wait) => self.begin(),
                // Only locks below this one were in the way, or there is room.
                (Asked::Acquire | Asked::Try | Asked::Yield | Asked::Look, _) => self.ask(Asked::Acquire),
            };
        };
        if lease != queue.lease {
            return self.remove(create, Then::Look);
        }
        // Whoever asks for a place is told if another has that key; whoever looks has to know its own.
        if asked == Asked::Look && self.seat != self.terms.attempt && self.created != Some(create) {
            self.move_on();
            return self.look();
        }
        self.own = Some(Own { create });
        self.created = Some(create);
        // A latch that ended while this one waited, and was made again, is another one and shut from the beginning; one
        // that is shut again had been open.
        let is_anew = |entry: &Entry| Part::of_count(&entry.key).is_some() && entry.create > create;
        let is_anew = self.part == Part::Wait && queue.entries.iter().any(is_anew);
        let ahead = contenders.into_iter().filter(|entry| (is_anew || entry.create < create) && entry.key != self.key);
        let ahead: Vec<_> = ahead.collect();
        if let Some(why) = self.refusal(&ahead, whole) {
            return self.remove(create, Then::Refuse(why));
        }
        let mut line = Line { revision: queue.revision, ahead: keys(&ahead), whole, gone: false };
        for (revision, key) in told {
            line.told(&self.key, revision, &key);
        }
        let has_room = self.has_room(&line.ahead);
        match () {
            () if line.gone => self.look(),
            () if has_room && !whole => {
                // What is shown is all of locks below this one, or has as many permits as another says.
                self.shown = self.shown.saturating_mul(4).min(1 << 24);
                self.look()
            }
            () if has_room => self.granted(),
            () if !self.wait => self.remove(create, Then::Held),
            () => {
                // Whoever is just ahead goes last of all, unless it gives up. Permits are held by many.
                let others = line.ahead.len().saturating_sub(1);
                if !whole && !matches!(self.part, Part::Permits { .. }) {
                    line.ahead.drain(..others);
                }
                self.watch(line)
            }
        }
    }

    fn watch(&mut self, line: Line) -> Result<Step> {
        let mut request = Request::new(&WATCH, self.lock.clone(), []);
        if let ([last], false) = (&line.ahead[..], line.whole) {
            let revision = i64::try_from(line.revision).unwrap_or(i64::MAX);
            request.args.extend([Arg::Key(last.clone()), Arg::Int(revision)]);
        }
        self.send(At::Watching(line), request)
    }

    /// There is room behind those who are left of all that were shown.
    fn moved_up(&mut self, whole: bool) -> Result<Step> {
        // A latch that nobody used for too long goes as well, and is not open.
        let is_told = whole && self.part != Part::Wait;
        if is_told { self.granted() } else { self.look() }
    }

    fn told(&mut self, path: &str) -> Result<Step> {
        let Some((revision, key)) = path.split_once(':').and_then(|(at, key)| Some((at.parse().ok()?, key))) else {
            return Ok(Step::Ignore);
        };
        match &mut self.at {
            At::Asking(_) if self.told.len() < MAX_TOLD => self.told.push((revision, key.into())),
            At::Asking(_) => self.missed = true,
            At::Watching(line) => {
                line.told(&self.key, revision, key);
            }
            At::Waiting(line) => {
                if line.told(&self.key, revision, key) {
                    return self.waits();
                }
            }
            At::Rest | At::Removing(..) | At::Moving | At::GivingBack => {}
        }
        Ok(Step::Ignore)
    }

    /// Somebody ahead may have gone, or the own key.
    fn waits(&mut self) -> Result<Step> {
        let At::Waiting(line) = &self.at else { return Ok(Step::Ignore) };
        let (gone, whole) = (line.gone, line.whole);
        if !gone && !self.has_room(&line.ahead) {
            return Ok(Step::Ignore);
        }
        self.rounds = 0;
        if gone { self.look() } else { self.moved_up(whole) }
    }

    /// Events of this lock may have been missed.
    fn missed(&mut self, path: &str) -> Result<Step> {
        match &self.at {
            _ if *path != *self.lock => Ok(Step::Ignore),
            At::Waiting(_) => {
                self.rounds = 0;
                self.look()
            }
            At::Watching(_) => {
                self.missed = true;
                Ok(Step::Ignore)
            }
            _ => Ok(Step::Ignore),
        }
    }

    fn granted(&mut self) -> Result<Step> {
        let tokens = self.own.and_then(|own| Tokens::one(own.create));
        let tokens = Some(tokens.ok_or_else(|| garbled("acquire"))?);
        (self.at, self.missed) = (At::Rest, false);
        Ok(Step::Done(Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: self.told_of_given() })))
    }
}

pub(super) fn ask<const N: usize>(requests: [Request; N]) -> Step {
    Step::Ask(Requests::from_iter(requests))
}

/// Somebody else holds it; of an earlier hold that was given back `prev` is told.
pub(super) fn held(prev: Option<ReleaseOutcome>) -> Step {
    Step::Done(Verdict::Held { remaining: Duration::ZERO, at: None, prev })
}

/// Whether nothing was done, and will not be.
fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error { code, .. } if code != "Unavailable")
}

fn tag(terms: &Terms) -> Option<Arg> {
    seat::tag_of(&terms.card, terms.attempt).map(|tag| Arg::Text(tag.into()))
}

impl Refusal {
    fn error(self, part: Part) -> Error {
        let (kind, message) = match self {
            Refusal::NoLease(key) => (
                Kind::ForeignLayout,
                format!(
                    "the key {key} is kept by no lease, as a lock's are, and would be in the way for ever; choose another \
                     name, or delete it if nobody needs it"
                ),
            ),
            Refusal::Other(is) => return is.excludes(part),
            Refusal::TooMany(permits) => (
                Kind::InvalidConfig,
                format!("it has {permits} permits, as whoever uses it longest says; take no more than that"),
            ),
        };
        Error::new(kind, "acquire", message)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};

    use super::*;
    use crate::lease::Card;
    use crate::protocol::{InboxId, Previous};
    use crate::rank::Rank;

    fn terms(attempt: u128, label: &str) -> Terms {
        let (name, inbox) = ("lk".into(), InboxId(1));
        let card = Card { label: label.into(), ..Card::decode("") }.encode().into();
        let (ttl, claim) = (Duration::from_secs(3), Duration::from_secs(1));
        Terms { name, attempt: AttemptId(attempt), inbox, ttl, claim, card, fair: false, rank: Rank::LOWEST }
    }

    fn acquire(label: &str, attempt: u128, prev: Option<u128>) -> Input<'static> {
        let prev = prev.map(|prev| Previous { terms: terms(prev, label), used: 0 });
        Input::Begin(Intent::Acquire { terms: terms(attempt, label), wait: true, prev })
    }

    fn asked(step: &Step) -> Vec<String> {
        let Step::Ask(requests) = step else { panic!("it asks nothing: {step:?}") };
        let key = |arg: &Arg| if let Arg::Key(key) = arg { Some(key.to_string()) } else { None };
        let words = |request: &Request| {
            let keys: Vec<_> = request.args.iter().filter_map(key).collect();
            format!("{} {}", request.call.name, keys.join(" "))
        };
        requests.iter().map(words).collect()
    }

    fn holder(label: &str) -> Concurrency {
        granted(Concurrency::new("lk".into(), Duration::from_secs(3)), label)
    }

    fn granted(mut machine: Concurrency, label: &str) -> Concurrency {
        machine.step(acquire(label, 1, None));
        let queue = Reply::List([77, 5, 5, 77].map(Reply::Int).into());
        let step = machine.step(Input::Reply(Op::Acquire, &[queue]));
        assert!(matches!(step, Step::Done(Verdict::Granted(_))), "{step:?}");
        machine
    }

    /// Observers of Go's read it as what a leader proclaims.
    #[test]
    fn a_hold_with_a_label_is_handed_on_under_the_name_of_its_attempt() {
        let mut machine = holder("worker");
        let key = |attempt: u128| format!("lk/{}", AttemptId(attempt));
        let step = machine.step(acquire("worker", 2, Some(1)));
        assert_eq!(asked(&step), [format!("yield {} {}", key(2), key(1))]);
        let Step::Ask(requests) = step else { unreachable!() };
        let texts = requests[0].args.iter().filter(|arg| matches!(arg, Arg::Text(_))).count();
        assert_eq!(texts, 1, "the card is its value");
        let undo =
            Intent::Undo { terms: terms(2, "worker"), prev: Some(Previous { terms: terms(1, "worker"), used: 0 }) };
        let step = machine.step(Input::Begin(undo));
        assert_eq!(asked(&step), [format!("release {}", key(1)), format!("delete {}", key(2))]);
        let undone = machine.step(Input::Reply(Op::Undo, &[Reply::Int(1), Reply::Int(0)]));
        assert!(matches!(undone, Step::Done(Verdict::Undone)), "{undone:?}");
    }

    #[test]
    fn whoever_is_to_give_back_what_it_does_not_know_asks_for_its_name() {
        let mut machine = holder("");
        let step = machine.step(acquire("", 2, Some(9)));
        assert_eq!(asked(&step), [format!("undo lk/{}", AttemptId(9))]);
    }

    #[test]
    fn an_undo_is_over_once_all_of_it_is_answered() {
        let mut machine = holder("");
        machine.step(acquire("", 2, Some(1)));
        let previous = || Some(Previous { terms: terms(1, ""), used: 0 });
        let undo = || Input::Begin(Intent::Undo { terms: terms(2, ""), prev: previous() });
        let silent = || Reply::Error { code: "Unavailable".into(), message: String::new() };
        for replies in [&[Reply::Int(1), silent()][..], &[silent(), Reply::Int(0)], &[]] {
            machine.step(undo());
            let step = machine.step(Input::Reply(Op::Undo, replies));
            assert!(matches!(step, Step::Done(Verdict::Failed(_))), "{replies:?}: {step:?}");
        }
    }

    /// Whom everybody left whom it was told of.
    #[derive(Debug)]
    struct Left(Sender<AttemptId>);

    impl Seats for Left {
        fn take(&self) -> Option<AttemptId> {
            None
        }

        fn leave(&self, seat: AttemptId) {
            self.0.send(seat).unwrap();
        }
    }

    /// As it is told to whoever asks for it.
    #[derive(Debug)]
    struct Only;

    impl Seats for Only {
        fn take(&self) -> Option<AttemptId> {
            Some(AttemptId(7))
        }

        fn leave(&self, _: AttemptId) {}
    }

    #[test]
    fn no_key_is_put_and_deleted_by_one_transaction() {
        let seats: Arc<dyn Seats> = Arc::new(Only);
        let machine = Concurrency::new("lk".into(), Duration::from_secs(3)).seated(&seats);
        let mut machine = granted(machine, "");
        let step = machine.step(acquire("", 2, Some(1)));
        assert_eq!(asked(&step), [format!("yield lk/{} lk/{}", AttemptId(2), AttemptId(7))]);
    }

    /// A seat that two are given is of use to neither.
    #[test]
    fn a_seat_is_left_once_however_often_its_attempt_is_undone() {
        let kept = Reply::Error { code: "Kept".into(), message: String::new() };
        for answered in [&[][..], &[kept, Reply::Int(1)]] {
            let (says, hears) = mpsc::channel();
            let seats: Arc<dyn Seats> = Arc::new(Left(says));
            let mut machine = holder("").seated(&seats);
            machine.step(acquire("", 2, Some(1)));
            for reply in answered {
                machine.step(Input::Reply(Op::Acquire, std::slice::from_ref(reply)));
            }
            for _ in 0..3 {
                let prev = Some(Previous { terms: terms(1, ""), used: 0 });
                machine.step(Input::Begin(Intent::Undo { terms: terms(2, ""), prev }));
                machine.step(Input::Reply(Op::Undo, &[Reply::Int(0), Reply::Int(0)]));
            }
            drop((machine, seats));
            let mut left: Vec<_> = hears.iter().collect();
            left.sort();
            assert_eq!(left, [AttemptId(1), AttemptId(2)], "{answered:?}");
        }
    }

    #[test]
    fn what_several_share_is_not_handed_on() {
        let of = |part| Concurrency::of("lk".into(), Duration::from_secs(3), part).traits().yields;
        let parts = [Part::Lock, Part::Read, Part::Write, Part::Permits { take: 1, permits: 2 }, Part::Wait];
        assert_eq!(parts.map(of), [true, false, false, false, false]);
    }
}
