//! Whoever waits for a latch, as a machine. How it lies there is in [`super::counting`].
//!
//! To wait is to acquire what everybody has at once when the latch is open. A waiter has a node, so that it is seen; it
//! watches what stands there while the latch is shut. That goes with the last that counts down, and so does the wait,
//! without another look. A look uses the latch, which keeps it.
//!
//! ```text
//! acquire   input                                next
//! (begin)   new attempt, waiting                 Looking: create, children of the directory, reads, watch shut
//!           new attempt, trying                  Looking: children, reads
//!           same attempt                         Looking: exists mine, children, reads, watch shut; or as new
//! Looking   something else lies there            Removing, then failed
//!           no latch                             Above: sync, children of the directory
//!           it is over, or is to be kept longer  Mending: set it; then Looking
//!           the count is 0                       granted
//!           mine is gone, or of another session  Looking, as new
//!           shut has gone meanwhile              Looking (told so: granted)
//!           else                                 Waiting; trying: held
//! Above     something else lies there            failed
//!           nothing                              Making: containers, latch, clock and shut; then Looking
//! Waiting   shut is gone                         granted
//!
//! renew     nothing is held: renewed
//! release   delete mine -> released; where none was made, at once
//! undo      as a line does, below the latch
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::counting::{Places, State};
use super::line::{foreign, held};
use super::recipe::{WAITER, protection};
use super::sweep::Sweep;
use super::{CHILDREN, CREATE, EXISTS, WATCH};
use super::{after_sync, child, created, delete, deleted, first, garbled, is_done, names, on, stat, synced};
use crate::error::{Error, Kind, Result};
use crate::gate::{LatchPlan, gone_on};
use crate::protocol::{
    Arg, AttemptId, Grant, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Term, Terms,
    Traits, Verdict, Wait,
};
use crate::token::Tokens;

/// A latch that changes under each of so many looks in a row is left alone; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 32;
/// How often whoever waits looks at the latest: only an event that was lost makes a difference, but a latch that is
/// used is kept. Sooner than any is over.
const PATIENCE: Duration = Duration::from_secs(20);

/// One who waits for a latch.
#[derive(Clone, Debug, Hash)]
pub struct Latch {
    places: Places,
    plan: LatchPlan,
    waiter: Option<Waiter>,
    release: Option<Sweep>,
    undo: Option<Sweep>,
}

#[derive(Clone, Debug, Hash)]
struct Waiter {
    terms: Terms,
    wait: bool,
    places: Places,
    plan: LatchPlan,
    prefix: Arc<str>,
    /// A create was sent and never answered, or another one after it.
    doubt: bool,
    rounds: u8,
    asked: usize,
    own: Option<Arc<str>>,
    at: At,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Looking { mine: Mine, told: bool },
    Above,
    Making,
    Mending,
    Waiting,
    Removing(&'static str),
}

/// What a look does with the own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mine {
    Create,
    Exists,
    Nothing,
}

impl Latch {
    /// Whoever waits for the latch in the directory `dir`, which is as `plan` says if there is none.
    pub fn new(dir: Arc<str>, plan: LatchPlan) -> Self {
        Latch { places: Places::of(dir), plan, waiter: None, release: None, undo: None }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        match intent {
            Intent::Acquire { terms, wait, prev: _ } => {
                match self.waiter.as_mut().filter(|waiter| waiter.terms.attempt == terms.attempt) {
                    Some(waiter) => waiter.again(wait),
                    None => {
                        let (places, prefix) = (self.places.clone(), protection(terms.attempt));
                        let (plan, at) = (self.plan, At::Rest);
                        let (doubt, rounds, asked, own) = (false, 0, 0, None);
                        let waiter = Waiter { terms, wait, places, plan, prefix, doubt, rounds, asked, own, at };
                        self.waiter.insert(waiter).begin()
                    }
                }
            }
            Intent::Renew { .. } => Ok(Step::Done(Verdict::Renewed)),
            Intent::Release { terms, .. } => {
                let Some(sweep) = self.sweep(Op::Release, terms.attempt) else { return Ok(gone_on()) };
                let is_certain = !self.waiter.as_ref().is_some_and(|waiter| waiter.doubt);
                Ok(self.release.insert(sweep).begin(is_certain))
            }
            Intent::Undo { terms, .. } => {
                let sweep = self.sweep(Op::Undo, terms.attempt);
                // Else what is told while this sweeps would still grant.
                self.waiter.take_if(|waiter| waiter.terms.attempt == terms.attempt);
                match sweep {
                    Some(sweep) => Ok(self.undo.insert(sweep).begin(true)),
                    None => Ok(Step::Done(Verdict::Undone)),
                }
            }
        }
    }

    /// What removes the nodes of an attempt; `None` where it has none for certain.
    fn sweep(&self, op: Op, attempt: AttemptId) -> Option<Sweep> {
        let waiter = self.waiter.as_ref().filter(|waiter| waiter.terms.attempt == attempt);
        if waiter.is_some_and(|waiter| waiter.own.is_none() && !waiter.may_come()) {
            return None;
        }
        let own = waiter.and_then(|waiter| waiter.own.clone());
        let prefixes = [protection(attempt)].into_iter().collect();
        Some(Sweep::new(op, self.places.latch.clone(), prefixes, own, false))
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        let sweep = match op {
            Op::Acquire => return self.waiter.as_mut().map_or(Ok(Step::Ignore), |waiter| waiter.reply(replies)),
            Op::Renew => return Ok(Step::Ignore),
            Op::Release => &mut self.release,
            Op::Undo => &mut self.undo,
        };
        let Some(mut current) = sweep.take() else { return Ok(Step::Ignore) };
        let step = current.reply(replies)?;
        *sweep = matches!(step, Step::Ask(_)).then_some(current);
        // That it was open stays true, whatever became of the node.
        Ok(if matches!(step, Step::Done(Verdict::Released(_))) { gone_on() } else { step })
    }
}

impl Waiter {
    /// Whether a create may be executed yet, or was.
    fn may_come(&self) -> bool {
        self.doubt || matches!(self.at, At::Looking { mine: Mine::Create, .. })
    }

    fn begin(&mut self) -> Result<Step> {
        self.look(if self.wait { Mine::Create } else { Mine::Nothing })
    }

    fn again(&mut self, wait: bool) -> Result<Step> {
        self.doubt = self.may_come();
        (self.wait, self.rounds) = (wait, 0);
        self.look_again()
    }

    fn look_again(&mut self) -> Result<Step> {
        self.look(match self.own {
            Some(_) => Mine::Exists,
            None if self.wait => Mine::Create,
            None => Mine::Nothing,
        })
    }

    fn look(&mut self, mine: Mine) -> Result<Step> {
        let mut requests = Requests::new();
        match (mine, &self.own) {
            (Mine::Create, _) => {
                let path = child(&self.places.latch, &format!("{}{WAITER}", self.prefix));
                requests.push(Request::new(&CREATE, path, [Arg::Text(self.terms.card.clone())]));
            }
            (Mine::Exists, Some(own)) => requests.push(on(&EXISTS, &child(&self.places.latch, own))),
            _ => {}
        }
        requests.push(on(&CHILDREN, &self.places.dir));
        requests.extend(self.places.reads());
        if self.wait {
            requests.push(on(&WATCH, &self.places.shut));
        }
        self.ask(At::Looking { mine, told: false }, requests)
    }

    fn ask(&mut self, at: At, requests: Requests) -> Result<Step> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            let message = "the latch changed each time it was looked at; try again";
            return Err(Error::new(Kind::Unavailable, "acquire", message));
        }
        (self.at, self.asked) = (at, requests.len());
        Ok(Step::Ask(requests))
    }

    fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        match mem::replace(&mut self.at, At::Rest) {
            at @ (At::Rest | At::Waiting) => {
                self.at = at;
                Ok(Step::Ignore)
            }
            _ if replies.len() != self.asked => Err(garbled(OP)),
            At::Looking { mine, told } => self.looked(mine, told, replies),
            At::Above => {
                let list = names(OP, first(OP, after_sync(OP, replies)?)?)?.unwrap_or_default().1;
                match Places::stranger(&list) {
                    Some(what) => Err(foreign("acquire", &self.places.dir, what)),
                    None => self.ask(At::Making, self.places.make(&State::of(self.plan))),
                }
            }
            At::Making => {
                self.places.made(replies)?;
                self.look_again()
            }
            At::Mending => {
                is_done(OP, first(OP, replies)?)?;
                self.look_again()
            }
            At::Removing(what) => {
                deleted(OP, first(OP, replies)?)?;
                Err(foreign("acquire", &self.places.dir, what))
            }
        }
    }

    fn looked(&mut self, mine: Mine, told: bool, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let (own, rest) = replies.split_at(usize::from(mine != Mine::Nothing));
        let is_missing = match (mine, own) {
            (Mine::Create, [made]) => match created(OP, made).inspect_err(|error| self.doubt |= error.retryable())? {
                Some((path, _)) => {
                    let name = path.strip_prefix(&*self.places.latch).and_then(|path| path.strip_prefix('/'));
                    let name = name.filter(|name| name.starts_with(&*self.prefix)).ok_or_else(|| garbled(OP))?;
                    self.own = Some(name.into());
                    false
                }
                None => return self.above(),
            },
            (Mine::Exists, [found]) => !stat(OP, found)?.is_some_and(|stat| stat.ours()),
            _ => false,
        };
        let (list, rest) = rest.split_first().ok_or_else(|| garbled(OP))?;
        let (reads, watched) = rest.split_at_checked(4).ok_or_else(|| garbled(OP))?;
        let Some((_, list)) = names(OP, list)? else { return self.above() };
        if let Some(what) = Places::stranger(&list) {
            return match self.own.take() {
                Some(own) => {
                    let removes = [delete(child(&self.places.latch, &own))];
                    self.ask(At::Removing(what), removes.into_iter().collect())
                }
                None => Err(foreign("acquire", &self.places.dir, what)),
            };
        }
        let Some(seen) = self.places.seen(reads)? else { return self.above() };
        if let Some(mend) = self.places.mend(&seen, self.plan) {
            return self.ask(At::Mending, [mend].into_iter().collect());
        }
        match watched {
            _ if seen.state.count == 0 || told => Ok(self.granted()),
            [] => Ok(held(None)),
            _ if is_missing => {
                // What another session keeps goes with it.
                (self.own, self.doubt) = (None, true);
                self.look(Mine::Create)
            }
            [shut, ..] if stat(OP, shut)?.is_none() => self.look_again(),
            _ => {
                self.at = At::Waiting;
                Ok(Step::Wait(Wait { at: None, remaining: PATIENCE, position: 0, prev: None }))
            }
        }
    }

    fn above(&mut self) -> Result<Step> {
        self.ask(At::Above, synced(&self.places.dir, [on(&CHILDREN, &self.places.dir)]))
    }

    fn told(&mut self, path: &str) -> Step {
        match &mut self.at {
            _ if *path != *self.places.shut => Step::Ignore,
            At::Looking { told, .. } => {
                *told = true;
                Step::Ignore
            }
            At::Waiting => self.granted(),
            _ => Step::Ignore,
        }
    }

    fn granted(&mut self) -> Step {
        self.at = At::Rest;
        Step::Done(Verdict::Granted(Grant { tokens: Tokens::one(1), term: Term::FromRequest, prev: None }))
    }
}

impl Protocol for Latch {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(StoreEvent::Gone { path }) => {
                Ok(self.waiter.as_mut().map_or(Step::Ignore, |waiter| waiter.told(path)))
            }
            Input::Event(_) => Ok(Step::Ignore),
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
