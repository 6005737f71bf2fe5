//! The semaphore of Apache Curator (`InterProcessSemaphoreV2`), as a machine.
//!
//! Below the semaphore's directory lie two: in `locks` whoever wants permits stands in line for a lock of Curator's;
//! who has that makes a node in `leases` for each permit and waits there until they are among the first so many, then
//! gives the lock back. A holder has its nodes in `leases` alone, and gives back by deleting them.
//!
//! Curator counts all leases and takes one when they are not too many. A lease that is among the first so many by its
//! number stays among them, whoever comes later: so nobody needs the lock to be safe, and a mere try does without. Who
//! holds the lock waits for nobody but holders and such tries.
//!
//! ```text
//! acquire   input                                next
//! (begin)   new attempt, waiting                 Lock:     the conversation of a line in locks
//!           new attempt, trying                  Making
//!           same attempt, may have leases        Listing
//! Lock      granted                              Making
//! Listing   sync, children of both               list
//! list      a semaphore's directories are not alone
//!                                                Removing, then failed
//!           mine are as many as wanted, known    the first so many: Freeing, or granted for a try
//!                                                not: Waiting; a try: Removing, then held
//!           mine are others, or unknown          Removing, then as none
//!           none of mine                         Making; Lock, if it waits and has not got that
//! Making    create each, children with a watch   list
//!           NoNode                               Making: containers down to both, create each, children
//! Waiting   changed | gone                       Listing
//! Freeing   the release of the line in locks     granted
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use super::keeping::{Keeping, granted, not_failed, own_of, until_a_change};
use super::line::{LAST_SEQUENCE, Line, Own, foreign, held, wrapping};
use super::recipe::{LEASE, Recipe, SEMAPHORE, numbered, protection};
use super::{CHILDREN, CONTAINER, CREATE, WATCH_CHILDREN};
use super::{after_sync, child, created, delete, deleted, garbled, names, on, synced, unmade};
use crate::error::{Error, Kind, Result};
use crate::protocol::{
    Arg, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Terms, Traits, Verdict,
};

/// Looks in a row after which a semaphore that changes all the time is left alone; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 32;

/// One contender for permits of one semaphore.
#[derive(Clone, Debug, Hash)]
pub struct Permits {
    dir: Arc<str>,
    leases: Arc<str>,
    line: Line,
    wanted: usize,
    capacity: usize,
    seeker: Option<Seeker>,
    keeping: Keeping,
}

#[derive(Clone, Debug, Hash)]
struct Seeker {
    terms: Terms,
    wait: bool,
    prefix: Arc<str>,
    /// It has the lock of the line, and made nothing before it had.
    has_lock: bool,
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
    Lock,
    Making { parents: bool, told: bool },
    Listing { told: bool },
    Waiting,
    Freeing,
    Removing(Then),
}

#[derive(Clone, Copy, Debug, Hash)]
enum Then {
    Make,
    Held,
    Refuse(i32),
    Foreign(&'static str),
}

impl Permits {
    /// A contender for `wanted` of `capacity` permits of the semaphore kept in the directory `dir`.
    pub fn new(dir: Arc<str>, wanted: u32, capacity: u32) -> Self {
        let [locks, leases] = SEMAPHORE.map(|below| child(&dir, below));
        let line = Line::of_permits(locks, dir.clone());
        let keeping = Keeping::new(leases.clone(), Recipe::Mutex, wanted > 1);
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Permits { dir, leases, line, wanted: number(wanted), capacity: number(capacity), seeker: None, keeping }
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
        let prefix = protection(terms.attempt);
        let seeker = match self.seeker.take().filter(|seeker| seeker.terms.attempt == terms.attempt) {
            Some(known) => Seeker {
                wait,
                has_lock: false,
                rounds: 0,
                doubt: known.doubt || matches!(known.at, At::Making { .. }),
                at: At::Rest,
                ..known
            },
            None => {
                let (own, at) = (Vec::new(), At::Rest);
                Seeker { terms, wait, prefix, has_lock: false, doubt: false, rounds: 0, asked: 0, own, at }
            }
        };
        let is_new = !seeker.doubt && seeker.own.is_empty();
        self.seeker = Some(seeker);
        match (is_new, wait) {
            (true, true) => self.stand(),
            (true, false) => self.make(false),
            // Whoever has leases must not stand in line behind others, who wait for those.
            (false, _) => self.list(),
        }
    }

    /// Stands in line, or finds out that it has the lock yet.
    fn stand(&mut self) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Lock;
        let terms = seeker.terms.clone();
        let step = self.line.step(Input::Begin(Intent::Acquire { terms, wait: true, prev: None }));
        self.in_line(step)
    }

    /// What the line says belongs to this conversation, but for how it ends.
    fn in_line(&mut self, step: Step) -> Result<Step> {
        match step {
            Step::Done(Verdict::Granted(_)) => {
                self.seeker.iter_mut().for_each(|seeker| seeker.has_lock = true);
                self.make(false)
            }
            other => not_failed(other),
        }
    }

    fn ask(&mut self, at: At, requests: Requests) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.rounds += 1;
        if seeker.rounds > MAX_ROUNDS {
            let message = "the semaphore's leases changed each time they were looked at; try again";
            return Err(Error::new(Kind::Unavailable, "acquire", message));
        }
        (seeker.at, seeker.asked) = (at, requests.len());
        Ok(Step::Ask(requests))
    }

    fn make(&mut self, parents: bool) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.own.clear();
        let mut requests = Requests::new();
        if parents {
            let ends = self.leases.match_indices('/').map(|(end, _)| end).skip(1).chain([self.leases.len()]);
            requests.extend(ends.map(|end| on(&CONTAINER, &self.leases[..end].into())));
        }
        let path = child(&self.leases, &format!("{}{LEASE}", seeker.prefix));
        let make = Request::new(&CREATE, path, [Arg::Text(seeker.terms.card.clone())]);
        requests.extend((0..self.wanted).map(|_| make.clone()));
        requests.extend(reads(&self.leases, &self.dir, seeker.wait));
        self.ask(At::Making { parents, told: false }, requests)
    }

    /// There are no leases yet: they are made where nothing else lies.
    fn make_both(&mut self, lists: &[Reply]) -> Result<Step> {
        let [_, dir] = lists else { return Err(garbled(Op::Acquire)) };
        let dir = names(Op::Acquire, dir)?.unwrap_or_default().1;
        match dir.iter().find_map(|name| Recipe::beside_permits(name)) {
            Some(what) => Err(foreign("acquire", &self.dir, what)),
            None => self.make(true),
        }
    }

    fn list(&mut self) -> Result<Step> {
        let Some(seeker) = &self.seeker else { return Ok(Step::Ignore) };
        let requests = synced(&self.leases, reads(&self.leases, &self.dir, seeker.wait));
        self.ask(At::Listing { told: false }, requests)
    }

    fn remove(&mut self, names: &[&str], then: Then) -> Result<Step> {
        let requests: Requests = names.iter().map(|name| delete(child(&self.leases, name))).collect();
        if let Some(seeker) = &mut self.seeker {
            seeker.own.clear();
        }
        match requests.is_empty() {
            true => self.removed(then),
            false => self.ask(At::Removing(then), requests),
        }
    }

    fn removed(&mut self, then: Then) -> Result<Step> {
        match then {
            Then::Make if self.seeker.as_ref().is_some_and(|seeker| seeker.wait && !seeker.has_lock) => self.stand(),
            Then::Make => self.make(false),
            Then::Held => Ok(held(None)),
            Then::Refuse(sequence) => Err(wrapping(&self.leases, sequence)),
            Then::Foreign(what) => Err(foreign("acquire", &self.dir, what)),
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
            At::Freeing => {
                seeker.at = At::Freeing;
                match self.line.step(Input::Reply(Op::Release, replies)) {
                    Step::Done(Verdict::Released(_)) => self.granted(),
                    other => not_failed(other),
                }
            }
            _ if replies.len() != seeker.asked => Err(garbled(OP)),
            At::Making { parents, told } => {
                let (made, lists) = replies.split_at(replies.len().saturating_sub(2));
                let (containers, made) = made.split_at(made.len().saturating_sub(self.wanted));
                let mut own = Vec::with_capacity(self.wanted);
                for reply in made {
                    match created(OP, reply).inspect_err(|error| seeker.doubt |= error.retryable())? {
                        Some((path, stat)) => {
                            own.extend(own_of(&self.leases, &seeker.prefix, path, stat)?);
                        }
                        None if !parents => return self.make_both(lists),
                        None => return Err(unmade(containers)),
                    }
                }
                seeker.own = own;
                self.placed(lists, told)
            }
            At::Listing { told } => self.placed(after_sync(OP, replies)?, told),
            At::Removing(then) => {
                replies.iter().try_for_each(|reply| deleted(OP, reply).map(drop))?;
                self.removed(then)
            }
        }
    }

    fn placed(&mut self, lists: &[Reply], told: bool) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let [leases, dir] = lists else { return Err(garbled(OP)) };
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        let (session, mut leases) = names(OP, leases)?.unwrap_or_default();
        let dir = names(OP, dir)?.unwrap_or_default().1;
        // Every child counts, as with Curator; the number orders them.
        leases.sort_by_key(|name| (numbered(name, LEASE).map(str::to_owned), name.to_owned()));
        let mine: Vec<_> = leases.iter().copied().filter(|name| name.starts_with(&*seeker.prefix)).collect();
        if let Some(what) = dir.iter().find_map(|name| Recipe::beside_permits(name)) {
            return self.remove(&mine, Then::Foreign(what));
        }
        let is_own = |name: &&str| seeker.own.iter().any(|own| *own.name == **name && own.stat.session == session);
        if mine.len() != self.wanted || !mine.iter().all(is_own) {
            return self.remove(&mine, Then::Make);
        }
        let numbers = mine.iter().filter_map(|name| numbered(name, LEASE)?.parse().ok());
        if let Some(sequence) = numbers.into_iter().find(|sequence| !(0..=LAST_SEQUENCE).contains(sequence)) {
            return self.remove(&mine, Then::Refuse(sequence));
        }
        let last = leases.iter().rposition(|name| name.starts_with(&*seeker.prefix)).unwrap_or_default();
        match (last < self.capacity, seeker.wait) {
            (true, true) => self.free(),
            (true, false) => self.granted(),
            (false, false) => self.remove(&mine, Then::Held),
            (false, true) if told => self.list(),
            (false, true) => {
                seeker.at = At::Waiting;
                Ok(until_a_change(&seeker.terms))
            }
        }
    }

    /// The next one in line may look for leases.
    fn free(&mut self) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Freeing;
        let terms = seeker.terms.clone();
        not_failed(self.line.step(Input::Begin(Intent::Release { terms, used: 0 })))
    }

    fn granted(&mut self) -> Result<Step> {
        let Some(seeker) = &mut self.seeker else { return Ok(Step::Ignore) };
        seeker.at = At::Rest;
        granted(&seeker.own)
    }

    fn told(&mut self, path: &str) -> Result<Step> {
        let Some(seeker) = self.seeker.as_mut().filter(|_| *path == *self.leases) else { return Ok(Step::Ignore) };
        match &mut seeker.at {
            At::Making { told, .. } | At::Listing { told } => {
                *told = true;
                Ok(Step::Ignore)
            }
            At::Waiting => {
                seeker.rounds = 0;
                self.list()
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

/// Who has leases, and what lies beside them; only who waits is to be told of others.
fn reads(leases: &Arc<str>, dir: &Arc<str>, wait: bool) -> [Request; 2] {
    [on(if wait { &WATCH_CHILDREN } else { &CHILDREN }, leases), on(&CHILDREN, dir)]
}

impl Protocol for Permits {
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
