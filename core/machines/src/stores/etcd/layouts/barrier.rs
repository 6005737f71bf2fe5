//! A party at a barrier on etcd, as a machine.
//!
//! Each party puts a key of its own, its place, under its client's lease ([`super::part`] has the names). Places stand
//! in the order in which they were created. Whoever sees as many as there are parties opens for the first of them, in
//! one transaction: if all of these are there, each is deleted, and another key says how it passed, under the same
//! lease. So all pass or none, and the revision of that transaction is the generation. A place that went is looked for
//! there; where neither is, the lease ended, and nobody knows any more what became of it: that is the error `lost`.
//!
//! A request that was never answered may come later. It finds the fence written by an undo, or its place, or what
//! became of that, and does nothing.
//!
//! ```text
//! acquire   input                                  next
//! (begin)   new attempt                            Asking: look
//!           same attempt, which may have a place   Fate
//! Asking    Fenced                                 Asking: the same
//!           something else is called so            Removing mine, then failed
//!           mine is not there, and was             Fate
//!           mine is not there, others differ       failed
//!           mine is not there, trying, too few     held
//!           mine is not there                      Asking: arrive
//!           mine is of another lease               Removing, then Asking: look
//!           those before it name another number    Removing, then failed
//!           as many as there are parties           Opening: open; then Fate
//!           too few, trying                        Removing, then held
//!           too few                                Watching: watch
//! Watching  begun after the look, or missed some   Asking: look
//!           mine went                              Fate
//!           it stands                              Waiting
//! Waiting   mine went                              Fate
//!           some may be missed                     Asking: look
//! Fate      it passed                              granted
//!           it stands                              Asking: look
//!           neither, and its lease ended           failed: lost
//!           neither                                Asking: arrive
//! Removing  released                               as said; not: Fate
//!
//! renew     nothing is held: renewed
//! release   delete what became of it; undo, where an arrival may yet come
//! undo      delete the place, or undo it; Fate: it passed: delete that, granted; else undone
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use super::concurrency::{ask, held, pause};
use super::part::Part;
use super::{ARRIVE, DELETE, FATE, LOOK, OPEN, UNDO, WATCH};
use super::{Entry, Queue, doing, first, garbled, int, is, list, number, on_keys, queue, release};
use crate::barrier_cell::Passage;
use crate::barrier_machine::{differs, lost, passed, restless};
use crate::error::Result;
use crate::gate::{BarrierPlan, gone_on};
use crate::protocol::{
    Arg, AttemptId, Input, Intent, Op, Protocol, Push, Reply, Request, Step, StoreEvent, Terms, Traits, Verdict, Wait,
};

/// The most parties of a barrier on etcd: of each, opening deletes one key and puts another, and a server takes 128
/// operations together.
pub const MOST_PARTIES: u32 = 60;

/// A barrier that changes under each of so many looks in a row is left alone; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 64;
/// How many keys a look shows.
const SHOWN: i64 = 1000;

/// One party at one barrier.
#[derive(Clone, Debug, Hash)]
pub struct Barrier {
    lock: Arc<str>,
    plan: BarrierPlan,
    party: Option<Party>,
    leaving: Option<Leaving>,
}

#[derive(Clone, Debug, Hash)]
struct Party {
    terms: Terms,
    wait: bool,
    lock: Arc<str>,
    plan: BarrierPlan,
    place: Arc<str>,
    passage: Arc<str>,
    /// Under which lease it asks for its place.
    lease: Option<i64>,
    /// An arrival was sent and never answered: it may have been executed, or may be yet.
    doubt: bool,
    rounds: u8,
    looks: u8,
    own: Option<u64>,
    passed: Option<Passage>,
    /// Events may have been missed.
    missed: bool,
    at: At,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Asking {
        arrives: bool,
        gone: bool,
    },
    /// As of which revision it looked, and whether the own place went since.
    Watching {
        revision: u64,
        gone: bool,
    },
    Waiting {
        revision: u64,
    },
    Opening,
    Fate,
    Removing(Then),
}

#[derive(Clone, Copy, Debug, Hash)]
enum Then {
    Look,
    Held,
    /// Those who stand there say that there are so many parties.
    Differs(u32),
    /// The name is of this.
    Other(Part),
}

/// A place is given up.
#[derive(Clone, Debug, Hash)]
struct Leaving {
    party: Party,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Delete,
    Fate,
    /// It passed, and this is left of it.
    Clear,
}

impl Barrier {
    /// A party at the barrier kept under `lock`.
    pub fn new(lock: Arc<str>, plan: BarrierPlan) -> Self {
        Barrier { lock, plan, party: None, leaving: None }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        match intent {
            Intent::Acquire { terms, wait, prev: _ } => {
                match self.party.as_mut().filter(|party| party.terms.attempt == terms.attempt) {
                    Some(party) => party.again(wait),
                    None => self.party.insert(Party::new(&self.lock, self.plan, terms, wait)).look(),
                }
            }
            Intent::Renew { .. } => Ok(Step::Done(Verdict::Renewed)),
            Intent::Release { terms, .. } => {
                let Some(party) = self.of(terms.attempt) else { return Ok(gone_on()) };
                Ok(ask([party.clears()]))
            }
            Intent::Undo { terms, .. } => {
                let party = self.party.take_if(|party| party.terms.attempt == terms.attempt);
                let known = self.leaving.take().map(|leaving| leaving.party);
                let known = known.filter(|party| party.terms.attempt == terms.attempt);
                let Some(mut party) = party.or(known) else { return Ok(Step::Done(Verdict::Undone)) };
                party.doubt = party.may_come();
                let mut leaving = Leaving { party, stage: Stage::Delete };
                let step = leaving.begin();
                self.leaving = Some(leaving);
                Ok(step)
            }
        }
    }

    fn of(&self, attempt: AttemptId) -> Option<&Party> {
        self.party.as_ref().filter(|party| party.terms.attempt == attempt)
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        let reply = first(replies);
        match op {
            Op::Acquire => self.party.as_mut().map_or(Ok(Step::Ignore), |party| party.reply(reply)),
            Op::Renew => Ok(Step::Ignore),
            // What was kept by a lease is gone with it.
            Op::Release if is(reply, "LeaseNotFound") => Ok(gone_on()),
            Op::Release => int(doing(op), reply).map(|_| gone_on()),
            Op::Undo => self.leaving.as_mut().map_or(Ok(Step::Ignore), |leaving| leaving.reply(reply)),
        }
    }
}

impl Party {
    fn new(lock: &Arc<str>, plan: BarrierPlan, terms: Terms, wait: bool) -> Self {
        let place = Part::Party { parties: plan.parties }.own_key(lock, terms.attempt);
        let passage = Part::Passed.own_key(lock, terms.attempt);
        Party {
            terms,
            wait,
            lock: lock.clone(),
            plan,
            place,
            passage,
            lease: None,
            doubt: false,
            rounds: 0,
            looks: 0,
            own: None,
            passed: None,
            missed: false,
            at: At::Rest,
        }
    }

    fn may_come(&self) -> bool {
        self.doubt || matches!(self.at, At::Asking { arrives: true, .. })
    }

    fn again(&mut self, wait: bool) -> Result<Step> {
        self.doubt = self.may_come();
        (self.wait, self.rounds) = (wait, 0);
        match self.passed {
            Some(passage) => granted(passage),
            None if self.doubt || self.own.is_some() => self.fate(),
            None => self.look(),
        }
    }

    /// What removes all that there may be of it once it passed.
    fn clears(&self) -> Request {
        let keys = [self.place.clone(), self.passage.clone()];
        match self.doubt {
            true => on_keys(&UNDO, &self.lock, keys),
            false => on_keys(&DELETE, &self.lock, [self.passage.clone()]),
        }
    }

    fn look(&mut self) -> Result<Step> {
        let request =
            Request::new(&LOOK, self.lock.clone(), [Arg::Key(self.place.clone()), Arg::Int(SHOWN), Arg::Int(0)]);
        self.send(At::Asking { arrives: false, gone: false }, request)
    }

    fn arrive(&mut self) -> Result<Step> {
        let (place, passage) = (Arg::Key(self.place.clone()), Arg::Key(self.passage.clone()));
        let args = [place, self.terms.card.clone().into(), Arg::Int(SHOWN), Arg::NotAfter, passage];
        self.send(At::Asking { arrives: true, gone: false }, Request::new(&ARRIVE, self.lock.clone(), args))
    }

    fn fate(&mut self) -> Result<Step> {
        let request = fate(self);
        self.send(At::Fate, request)
    }

    fn send(&mut self, at: At, request: Request) -> Result<Step> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(restless());
        }
        self.at = at;
        Ok(ask([request]))
    }

    fn reply(&mut self, reply: &Reply) -> Result<Step> {
        match mem::replace(&mut self.at, At::Rest) {
            at @ (At::Rest | At::Waiting { .. }) => {
                self.at = at;
                Ok(Step::Ignore)
            }
            At::Asking { arrives: true, .. } if is(reply, "Fenced") => self.arrive(),
            At::Asking { arrives, gone } => {
                let is_refused = matches!(reply, Reply::Error { code, .. } if code != "Unavailable");
                let may_come = arrives && !is_refused;
                let queue = queue(Op::Acquire, reply).inspect_err(|_| self.doubt |= may_come)?;
                self.placed(arrives, gone, &queue)
            }
            At::Watching { revision, gone } => {
                let [Reply::Int(since), Reply::Int(age)] = list(doing(Op::Acquire), reply)? else {
                    return Err(garbled(doing(Op::Acquire)));
                };
                if gone {
                    return self.fate();
                }
                if number(doing(Op::Acquire), *since)? > revision || mem::take(&mut self.missed) {
                    return self.look();
                }
                self.at = At::Waiting { revision };
                let remaining = pause(*age, &mut self.looks).min(self.plan.ttl);
                Ok(Step::Wait(Wait { at: None, remaining, position: 0, prev: None }))
            }
            At::Opening => {
                int("barrier", reply)?;
                self.fate()
            }
            At::Fate => self.fated(reply),
            At::Removing(then) => match int("barrier", reply) {
                Ok(1) => {
                    self.own = None;
                    self.removed(then)
                }
                Ok(_) => self.fate(),
                Err(error) => {
                    self.at = At::Removing(then);
                    Err(error)
                }
            },
        }
    }

    fn fated(&mut self, reply: &Reply) -> Result<Step> {
        let fate = Fate::read(Op::Acquire, reply)?;
        match fate.passage()? {
            Some(passage) => {
                self.passed = Some(passage);
                granted(passage)
            }
            None if fate.place.is_some() => self.look(),
            None if self.is_lost(&fate) => Err(lost()),
            None => self.look(),
        }
    }

    /// Whether it had a place, or may have had one, which is gone without a word.
    fn is_lost(&self, fate: &Fate) -> bool {
        self.own.is_some() || (self.doubt && self.lease != Some(fate.lease))
    }

    fn placed(&mut self, arrived: bool, gone: bool, queue: &Queue) -> Result<Step> {
        let of_this = |entry: &Entry| Part::of_key(&self.lock, &entry.key);
        let stranger = queue.entries.iter().filter_map(of_this).find(|part| part.word() != Part::Passed.word());
        let places = queue.entries.iter().filter_map(|entry| match of_this(entry)? {
            Part::Party { parties } => Some((parties, entry)),
            _ => None,
        });
        let mut places: Vec<_> = places.collect();
        places.sort_by_key(|(_, entry)| entry.create);
        let wanted = places.first().map_or(self.plan.parties, |(parties, _)| *parties);
        let standing: Vec<_> =
            places.into_iter().filter(|(parties, _)| *parties == wanted).map(|(_, entry)| entry).collect();
        let Some((create, lease)) = queue.own else {
            return match stranger {
                // It passed just now, or its lease ended.
                _ if arrived || self.own.is_some() => self.fate(),
                _ if self.doubt && self.lease != Some(queue.lease) => self.fate(),
                Some(part) => Err(part.excludes(Part::Passed)),
                None if wanted != self.plan.parties => Err(differs(self.plan, wanted)),
                None if !self.wait && standing.len() + 1 < self.parties() => Ok(held(None)),
                None => {
                    self.lease = Some(queue.lease);
                    self.arrive()
                }
            };
        };
        self.own = Some(create);
        match () {
            () if gone => self.fate(),
            () if lease != queue.lease => self.remove(create, Then::Look),
            () if wanted != self.plan.parties => self.remove(create, Then::Differs(wanted)),
            () => match (stranger, standing.get(..self.parties())) {
                (Some(part), _) => self.remove(create, Then::Other(part)),
                (None, Some(pass)) => self.open(pass),
                (None, None) if !self.wait => self.remove(create, Then::Held),
                (None, None) => {
                    let request = Request::new(&WATCH, self.lock.clone(), []);
                    self.send(At::Watching { revision: queue.revision, gone: false }, request)
                }
            },
        }
    }

    fn parties(&self) -> usize {
        usize::try_from(self.plan.parties).unwrap_or(usize::MAX)
    }

    fn open(&mut self, pass: &[&Entry]) -> Result<Step> {
        let mut request = Request::new(&OPEN, self.lock.clone(), []);
        for entry in pass {
            let Some((_, attempt)) = Part::of_ours(&entry.key) else { return Err(garbled("barrier")) };
            let create = i64::try_from(entry.create).unwrap_or(i64::MAX);
            let passage = Part::Passed.own_key(&self.lock, attempt);
            request.args.extend([
                Arg::Key(entry.key.clone()),
                Arg::Int(create),
                Arg::Int(entry.lease),
                Arg::Key(passage),
            ]);
        }
        self.send(At::Opening, request)
    }

    /// Removes the own place, if it is still the one that was created then.
    fn remove(&mut self, create: u64, then: Then) -> Result<Step> {
        let request = release(&self.lock, &self.place, create);
        self.send(At::Removing(then), request)
    }

    fn removed(&mut self, then: Then) -> Result<Step> {
        match then {
            Then::Look => self.look(),
            Then::Held => Ok(held(None)),
            Then::Differs(parties) => Err(differs(self.plan, parties)),
            Then::Other(part) => Err(part.excludes(Part::Passed)),
        }
    }

    fn told(&mut self, path: &str) -> Result<Step> {
        let Some((at, key)) = path.split_once(':').and_then(|(at, key)| Some((at.parse::<u64>().ok()?, key))) else {
            return Ok(Step::Ignore);
        };
        if *key != *self.place {
            return Ok(Step::Ignore);
        }
        match &mut self.at {
            At::Asking { gone, .. } => *gone = true,
            At::Watching { revision, gone } => *gone |= at > *revision,
            At::Waiting { revision } if at > *revision => {
                self.rounds = 0;
                return self.fate();
            }
            _ => {}
        }
        Ok(Step::Ignore)
    }

    /// Events of this barrier may have been missed.
    fn missed(&mut self, path: &str) -> Result<Step> {
        match self.at {
            _ if *path != *self.lock => Ok(Step::Ignore),
            At::Waiting { .. } => {
                self.rounds = 0;
                self.look()
            }
            At::Watching { .. } => {
                self.missed = true;
                Ok(Step::Ignore)
            }
            _ => Ok(Step::Ignore),
        }
    }
}

impl Leaving {
    fn begin(&mut self) -> Step {
        let Party { lock, place, own, doubt, passed, .. } = &self.party;
        let (stage, request) = match passed {
            Some(_) => (Stage::Clear, self.party.clears()),
            None if *doubt => (Stage::Delete, on_keys(&UNDO, lock, [place.clone()])),
            None if own.is_some() => (Stage::Delete, on_keys(&DELETE, lock, [place.clone()])),
            None => return Step::Done(Verdict::Undone),
        };
        self.stage = stage;
        ask([request])
    }

    fn reply(&mut self, reply: &Reply) -> Result<Step> {
        const OP: Op = Op::Undo;
        let is_over = is(reply, "LeaseNotFound");
        match self.stage {
            // A database that is full takes no fence, and no place that would be kept out by it.
            Stage::Delete | Stage::Clear if is(reply, "NoSpace") => {
                let keys = [self.party.place.clone(), self.party.passage.clone()];
                let keys = keys.into_iter().take(if self.stage == Stage::Delete { 1 } else { 2 });
                Ok(ask([on_keys(&DELETE, &self.party.lock, keys)]))
            }
            Stage::Delete => {
                if !is_over {
                    int(doing(OP), reply)?;
                }
                self.stage = Stage::Fate;
                Ok(ask([fate(&self.party)]))
            }
            Stage::Fate => {
                let fate = Fate::read(OP, reply)?;
                match fate.passage()? {
                    Some(passage) => {
                        self.party.passed = Some(passage);
                        Ok(self.begin())
                    }
                    // It may have passed before its lease ended.
                    None if self.party.lease != Some(fate.lease) => Err(lost()),
                    None => Ok(Step::Done(Verdict::Undone)),
                }
            }
            Stage::Clear => {
                if !is_over {
                    int(doing(OP), reply)?;
                }
                self.party.passed.map_or(Ok(Step::Done(Verdict::Undone)), granted)
            }
        }
    }
}

/// What became of a place.
struct Fate {
    lease: i64,
    place: Option<u64>,
    /// When it passed, and as which.
    passed: Option<(u64, i64)>,
}

impl Fate {
    fn read(op: Op, reply: &Reply) -> Result<Self> {
        let doing = doing(op);
        let [Reply::Int(lease), Reply::Int(place), Reply::Int(passed), Reply::Int(index)] = list(doing, reply)? else {
            return Err(garbled(doing));
        };
        let known = |revision: i64| u64::try_from(revision).ok().filter(|revision| *revision > 0);
        Ok(Fate { lease: *lease, place: known(*place), passed: known(*passed).map(|at| (at, *index)) })
    }

    fn passage(&self) -> Result<Option<Passage>> {
        let Some((revision, index)) = self.passed else { return Ok(None) };
        let generation = i64::try_from(revision).map_err(|_| garbled("barrier"))?;
        Passage::new(index, generation).map(Some).ok_or_else(|| garbled("barrier"))
    }
}

fn fate(party: &Party) -> Request {
    on_keys(&FATE, &party.lock, [party.place.clone(), party.passage.clone()])
}

fn granted(passage: Passage) -> Result<Step> {
    passed(passage.token().n).ok_or_else(|| garbled("barrier"))
}

impl Protocol for Barrier {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(event) => match (event, &mut self.party) {
                (StoreEvent::Gone { path }, Some(party)) => party.told(path),
                (StoreEvent::Changed { path }, Some(party)) => party.missed(path),
                _ => Ok(Step::Ignore),
            },
        };
        step.unwrap_or_else(|error| Step::Done(Verdict::Failed(error)))
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::WatchedPlace, bound: true }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}
