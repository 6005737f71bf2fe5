//! The semaphore of kazoo (`kazoo.recipe.lock.Semaphore`), as a machine.
//!
//! A permit is an ephemeral child of the semaphore's directory, called by a uuid, without a number: all children count.
//! Whoever wants one first takes kazoo's lock in the directory beside it (`<path>-__lock__`), and makes its node while
//! that is held and there are too few children; it waits there for others to go. How many permits there are is the
//! directory's data, a decimal text.
//!
//! Nobody is first by its name here, so the lock beside it is all that keeps two from counting at the same time.
//! Whoever made its nodes therefore looks whether its node of that lock is still there, of the same session: then it
//! was there when they were made. kazoo itself does not look.
//!
//! ```text
//! acquire   input                                next
//! (begin)   new attempt                          Lock:     the conversation of a line beside it
//!           same attempt, in line or in Waiting  as then, again
//!           same attempt, may have permits       Clearing
//! Clearing  sync, children                       Removing, then Lock
//! Lock      granted                              Looking;  held by another: held
//! Looking   sync, get the directory, children of it, with a watch for who waits
//!           NoNode                               Building: what leads there, then the directory with its data
//!           another kind of lock, other permits  Freeing, then failed
//!           some of mine                         Removing, then Looking
//!           room for all that is wanted          Making;   a try that finds none: Freeing, then held
//!           none                                 Waiting
//! Building  made | it was there                  Looking
//! Waiting   changed | gone                       Looking
//! Making    create each, children, exists mine in the line
//!           all are mine, and it is there        Freeing, then granted
//!           else                                 Removing, then Lock
//! Freeing   the release of the line              as said
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use super::keeping::{Keeping, granted, not_failed, own_of, until_a_change};
use super::line::{Line, Own, foreign, held};
use super::recipe::{Recipe, beside};
use super::{CHILDREN, Change, EPHEMERAL, EXISTS, GET, PERSISTENT, WATCH_CHILDREN};
use super::{after_sync, child, created, delete, deleted, first, found, garbled, is_done, names, on, stat, synced};
use super::{together, unmade};
use crate::error::{Error, Kind, Result};
use crate::protocol::{
    Arg, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Terms, Traits, Verdict,
};

/// Looks in a row after which a semaphore that changes all the time is left alone; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 32;

/// One contender for permits of one semaphore.
#[derive(Clone, Debug, Hash)]
pub struct KazooPermits {
    dir: Arc<str>,
    line: Line,
    wanted: u32,
    capacity: u32,
    seeker: Option<Seeker>,
    keeping: Keeping,
}

#[derive(Clone, Debug, Hash)]
struct Seeker {
    terms: Terms,
    wait: bool,
    /// A create was sent and never answered.
    doubt: bool,
    rounds: u8,
    asked: usize,
    own: Vec<Own>,
    at: At,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Clearing,
    Lock,
    Looking { told: bool },
    Building,
    Waiting,
    Making,
    Removing(After),
    Freeing(Then),
}

#[derive(Clone, Copy, Debug, Hash)]
enum After {
    Stand,
    Look,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Then {
    Granted,
    Held,
    Foreign(&'static str),
    /// There are so many.
    Others(u32),
}

impl KazooPermits {
    /// A contender for `wanted` of `capacity` permits of the semaphore kept in the directory `dir`.
    pub fn new(dir: Arc<str>, wanted: u32, capacity: u32) -> Self {
        let line = Line::new(beside(&dir), Recipe::KazooLock);
        let keeping = Keeping::new(dir.clone(), Recipe::KazooLock, wanted > 1);
        KazooPermits { dir, line, wanted, capacity, seeker: None, keeping }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        if let Intent::Acquire { terms, wait, prev: None } = intent {
            return self.acquire(terms, wait);
        }
        let seeker = self.seeker.as_ref().filter(|seeker| seeker.terms.attempt == intent.terms().attempt);
        let (own, doubt) = seeker.map_or((None, false), |seeker| (seeker.own.first().cloned(), seeker.doubt));
        if let Intent::Undo { .. } = intent {
            self.seeker.take_if(|seeker| seeker.terms.attempt == intent.terms().attempt);
        }
        self.keeping.begin(intent, own.as_ref(), doubt)
    }

    fn acquire(&mut self, terms: Terms, wait: bool) -> Result<Step> {
        let Some(known) = self.seeker.take().filter(|seeker| seeker.terms.attempt == terms.attempt) else {
            let (own, at) = (Vec::new(), At::Rest);
            self.seeker = Some(Seeker { terms, wait, doubt: false, rounds: 0, asked: 0, own, at });
            return self.stand();
        };
        let doubt = known.doubt || matches!(known.at, At::Making);
        let at = mem::replace(&mut self.seeker.insert(Seeker { wait, doubt, rounds: 0, ..known }).at, At::Rest);
        match at {
            _ if doubt => self.clear(),
            At::Looking { .. } | At::Building | At::Waiting => self.look(),
            At::Lock => self.stand(),
            // Whoever has permits must not stand in line behind others, who wait for those.
            _ => self.clear(),
        }
    }

    fn ask(&mut self, at: At, requests: Requests) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.rounds += 1;
        if seeker.rounds > MAX_ROUNDS {
            let message = "the semaphore's permits changed each time they were looked at; try again";
            return Err(Error::new(Kind::Unavailable, "acquire", message));
        }
        (seeker.at, seeker.asked) = (at, requests.len());
        Ok(Step::Ask(requests))
    }

    fn clear(&mut self) -> Result<Step> {
        self.ask(At::Clearing, synced(&self.dir, [on(&CHILDREN, &self.dir)]))
    }

    /// Stands in line, or finds out that it has the lock yet.
    fn stand(&mut self) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Lock;
        let (terms, wait) = (seeker.terms.clone(), seeker.wait);
        let step = self.line.step(Input::Begin(Intent::Acquire { terms, wait, prev: None }));
        self.in_line(step)
    }

    /// What the line says belongs to this conversation, but for how it ends.
    fn in_line(&mut self, step: Step) -> Result<Step> {
        match step {
            Step::Done(Verdict::Granted(_)) => self.look(),
            other => not_failed(other),
        }
    }

    fn look(&mut self) -> Result<Step> {
        let Some(seeker) = &self.seeker else { return Ok(Step::Ignore) };
        let list = if seeker.wait { &WATCH_CHILDREN } else { &CHILDREN };
        self.ask(At::Looking { told: false }, synced(&self.dir, [on(&GET, &self.dir), on(list, &self.dir)]))
    }

    /// The directory, as kazoo makes it: it stays, and says how many permits there are.
    fn build(&mut self) -> Result<Step> {
        let ends = self.dir.match_indices('/').map(|(end, _)| end).skip(1);
        let mut requests: Requests = ends.map(|end| on(&PERSISTENT, &self.dir[..end].into())).collect();
        requests.push(together(&self.dir, [Change::Make(self.dir.clone(), self.capacity.to_string().into())]));
        self.ask(At::Building, requests)
    }

    fn make(&mut self) -> Result<Step> {
        let Some(seeker) = &self.seeker else { return Ok(Step::Ignore) };
        let Some(mine) = self.line.held_by(seeker.terms.attempt) else { return self.stand() };
        let prefix = Recipe::KazooLock.prefix(seeker.terms.attempt);
        let name = |number: u32| if number == 0 { prefix.to_string() } else { format!("{prefix}-{number}") };
        let card = || [Arg::Text(seeker.terms.card.clone())];
        let make = |number| Request::new(&EPHEMERAL, child(&self.dir, &name(number)), card());
        let looks = [on(&CHILDREN, &self.dir), on(&EXISTS, &child(&beside(&self.dir), &mine.name))];
        let requests = (0..self.wanted).map(make).chain(looks).collect();
        self.ask(At::Making, requests)
    }

    fn remove(&mut self, names: &[&str], after: After) -> Result<Step> {
        let requests: Requests = names.iter().map(|name| delete(child(&self.dir, name))).collect();
        if let Some(seeker) = &mut self.seeker {
            seeker.own.clear();
        }
        match requests.is_empty() {
            true => self.removed(after),
            false => self.ask(At::Removing(after), requests),
        }
    }

    fn removed(&mut self, after: After) -> Result<Step> {
        match after {
            After::Stand => self.stand(),
            After::Look => self.look(),
        }
    }

    /// The next one in line may look for permits.
    fn free(&mut self, then: Then) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Freeing(then);
        let terms = seeker.terms.clone();
        not_failed(self.line.step(Input::Begin(Intent::Release { terms, used: 0 })))
    }

    fn freed(&mut self, then: Then) -> Result<Step> {
        match then {
            Then::Granted => self.granted(),
            Then::Held => Ok(held(None)),
            Then::Foreign(what) => Err(foreign("acquire", &self.dir, what)),
            Then::Others(permits) => {
                let (dir, wanted) = (&self.dir, self.capacity);
                let message = format!(
                    "{dir} says that the semaphore has {permits} permits, and not {wanted}; say the same everywhere, or \
                     delete it while nobody uses it"
                );
                Err(Error::invalid("acquire", message))
            }
        }
    }

    fn acquired(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        match mem::replace(&mut seeker.at, At::Rest) {
            at @ (At::Rest | At::Waiting) => {
                seeker.at = at;
                Ok(Step::Ignore)
            }
            At::Lock => {
                seeker.at = At::Lock;
                let step = self.line.step(Input::Reply(Op::Acquire, replies));
                self.in_line(step)
            }
            At::Freeing(then) => {
                seeker.at = At::Freeing(then);
                match self.line.step(Input::Reply(Op::Release, replies)) {
                    Step::Done(Verdict::Released(_)) => self.freed(then),
                    other => not_failed(other),
                }
            }
            _ if replies.len() != seeker.asked => Err(garbled(OP)),
            At::Clearing => {
                let names = names(OP, first(OP, after_sync(OP, replies)?)?)?.unwrap_or_default().1;
                let prefix = Recipe::KazooLock.prefix(seeker.terms.attempt);
                let mine: Vec<_> = names.into_iter().filter(|name| name.starts_with(&*prefix)).collect();
                self.remove(&mine, After::Stand)
            }
            At::Looking { told } => self.seen(after_sync(OP, replies)?, told),
            At::Building => {
                let [above @ .., made] = replies else { return Err(garbled(OP)) };
                match made {
                    Reply::Error { code, .. } if code == "NoNode" => Err(unmade(above)),
                    made => is_done(OP, made).and_then(|_| self.look()),
                }
            }
            At::Making => self.made(replies),
            At::Removing(after) => {
                replies.iter().try_for_each(|reply| deleted(OP, reply).map(drop))?;
                self.removed(after)
            }
        }
    }

    fn seen(&mut self, reads: &[Reply], told: bool) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let [data, list] = reads else { return Err(garbled(OP)) };
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        let (Some((_, data)), Some((_, names))) = (found(OP, data)?, names(OP, list)?) else { return self.build() };
        if let Some(what) = names.iter().find_map(|name| Recipe::beside_kazoos_permits(name)) {
            return self.free(Then::Foreign(what));
        }
        // What is no number is somebody else's business, as kazoo has it.
        if let Some(permits) = data.parse().ok().filter(|permits| *permits != self.capacity) {
            return self.free(Then::Others(permits));
        }
        let prefix = Recipe::KazooLock.prefix(seeker.terms.attempt);
        let mine: Vec<_> = names.iter().copied().filter(|name| name.starts_with(&*prefix)).collect();
        let there = u32::try_from(names.len()).unwrap_or(u32::MAX);
        match there.saturating_add(self.wanted) <= self.capacity {
            _ if !mine.is_empty() => self.remove(&mine, After::Look),
            true => self.make(),
            false if !seeker.wait => self.free(Then::Held),
            false if told => self.look(),
            false => {
                seeker.at = At::Waiting;
                Ok(until_a_change(&seeker.terms))
            }
        }
    }

    fn made(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let [made @ .., list, line] = replies else { return Err(garbled(OP)) };
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        let (attempt, prefix) = (seeker.terms.attempt, Recipe::KazooLock.prefix(seeker.terms.attempt));
        let mut own = Vec::with_capacity(made.len());
        for reply in made {
            // An earlier copy of the request may have been done: what that made is not known well enough.
            if matches!(reply, Reply::Error { code, .. } if code == "NodeExists") {
                continue;
            }
            if let Some((path, stat)) = created(OP, reply).inspect_err(|error| seeker.doubt |= error.retryable())? {
                own.extend(own_of(&self.dir, &prefix, path, stat)?);
            }
        }
        let (session, names) = names(OP, list)?.unwrap_or_default();
        let has_lock = match (stat(OP, line)?, self.line.held_by(attempt)) {
            (Some(stat), Some(mine)) => stat == mine.stat && stat.session == session,
            _ => false,
        };
        let all = own.len() == made.len() && own.iter().all(|own| own.stat.session == session);
        let fits = u32::try_from(names.len()).is_ok_and(|there| there <= self.capacity);
        let mine: Vec<_> = names.into_iter().filter(|name| name.starts_with(&*prefix)).collect();
        if !(has_lock && all && fits) {
            return self.remove(&mine, After::Stand);
        }
        seeker.own = own;
        self.free(Then::Granted)
    }

    fn granted(&mut self) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Rest;
        granted(&seeker.own)
    }

    fn told(&mut self, path: &str) -> Result<Step> {
        let Some(seeker) = self.seeker.as_mut().filter(|_| *path == *self.dir) else { return Ok(Step::Ignore) };
        match &mut seeker.at {
            At::Looking { told } => {
                *told = true;
                Ok(Step::Ignore)
            }
            At::Waiting => {
                seeker.rounds = 0;
                self.look()
            }
            _ => Ok(Step::Ignore),
        }
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        if op == Op::Acquire {
            return self.acquired(replies);
        }
        let own = self.seeker.as_ref().and_then(|seeker| seeker.own.first());
        self.keeping.reply(op, replies, own, &mut self.line)
    }
}

impl Protocol for KazooPermits {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(event) => match (event, self.seeker.as_ref().map(|seeker| &seeker.at)) {
                (_, Some(At::Lock)) => {
                    let step = self.line.step(Input::Event(event));
                    self.in_line(step)
                }
                (StoreEvent::Gone { path } | StoreEvent::Changed { path }, Some(_)) => self.told(path),
                _ => Ok(Step::Ignore),
            },
        };
        step.unwrap_or_else(|error| Step::Done(Verdict::Failed(error)))
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::Watch, bound: true }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}
