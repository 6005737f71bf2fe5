//! A party at a barrier, as a machine.
//!
//! | node | what it is |
//! |---|---|
//! | `barrier` | a container; its data is the number of the last place that passed |
//! | `barrier/_c_<uuid>-party-<parties>-<number>` | ephemeral; a place. Its data is its party's card, and once it passed, its index |
//!
//! Places stand in the order of their numbers, those up to the last that passed being over. Whoever sees as many as
//! there are parties opens for the first of them, in one transaction: it says of which version the barrier and each of
//! the places are, so all pass or none, and nobody twice. That transaction is the generation. A place is kept until its
//! party has read it, or its session ended: then nobody knows any more what became of it, which is the error `lost`.
//!
//! ```text
//! acquire   input                                 next
//! (begin)   new attempt                           Surveying: sync, children of the directory, read the barrier, its children
//!           same attempt, whose place is known    Looking
//!           same attempt, which may have one      Surveying
//! Surveying something else lies there             failed
//!           no barrier                            Making: containers down to it; then Surveying
//!           a place of mine                       Looking
//!           none, which may have gone             failed: lost
//!           others, who name another number       failed
//!           too few others, trying                held
//!           else                                  Arriving: create, read the barrier, its children
//! Arriving  NoNode                                Surveying
//!           created                               stands
//! Looking   sync, read the barrier, its children, watch mine, read mine
//!           mine is gone                          failed: lost
//!           mine passed                           granted
//!           mine is of another session            Removing; then Surveying
//!           else                                  stands
//! stands    mine is among those that are over     Removing; then Surveying
//!           those before it name another number   Removing; then failed
//!           as many as there are parties          Opening: set all; Looking
//!           too few, trying                       Removing; then held
//!           too few, not watched, or told         Looking
//!           too few                               Waiting
//! Removing  it passed                             Looking
//! Waiting   changed | gone                        Looking
//!
//! renew     nothing is held: renewed
//! release   delete mine
//! undo      delete mine, if it did not pass       undone; it passed: read it, delete it, granted
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use super::line::{LAST_SEQUENCE, foreign, held, wrapping};
use super::recipe::{GATES, PARTY, Recipe, protection};
use super::{CHILDREN, CONTAINER, CREATE, Change, DELETE, READ, WATCH};
use super::{Read, after_sync, child, created, delete, deleted, first, garbled, is_done, names, on, read, synced};
use super::{together, unmade};
use crate::barrier_cell::Passage;
use crate::barrier_machine::{differs, lost, passed, restless};
use crate::error::{Error, Result};
use crate::gate::{Answer, BarrierPlan, gone_on};
use crate::protocol::{
    Arg, AttemptId, Input, Inquiry, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Terms,
    Traits, Verdict, Wait,
};

/// The most parties of a barrier on ZooKeeper: opening is one transaction, which servers take up to a megabyte of.
pub const MOST_PARTIES: u32 = 1000;

/// A barrier that changes under each of so many looks in a row is left alone; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 64;

/// One place, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    name: &'a str,
    parties: u32,
    number: i32,
}

impl<'a> Place<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let (parties, number) = name[name.rfind(PARTY)? + PARTY.len()..].split_once('-')?;
        Some(Place { name, parties: parties.parse().ok()?, number: number.parse().ok()? })
    }
}

/// How a barrier was seen.
struct Seen<'a> {
    session: i64,
    version: i64,
    /// The last number that passed.
    last: i32,
    /// All places, in the order of their numbers.
    places: Vec<Place<'a>>,
}

impl<'a> Seen<'a> {
    /// What was read of it; `None` where there is none. The places were read after it, so none is missing that stands.
    fn of(doing: &'static str, dir: &str, node: &Reply, list: &'a Reply) -> Result<Option<Self>> {
        let (Some(node), Some((session, names))) = (read(doing, node)?, names(doing, list)?) else { return Ok(None) };
        let last = match &*node.data {
            "" => -1,
            last => last.parse().map_err(|_| foreign(doing, dir, "another barrier"))?,
        };
        let mut places: Vec<_> = names.into_iter().filter_map(Place::of).collect();
        places.sort_by_key(|place| place.number);
        Ok(Some(Seen { session, version: node.version, last, places }))
    }

    /// Those that stand, as the first of them says for how many parties: what others say is refused.
    fn standing(&self) -> Vec<Place<'a>> {
        let mut standing = self.places.iter().filter(|place| place.number > self.last).copied();
        let Some(first) = standing.next() else { return Vec::new() };
        [first].into_iter().chain(standing.filter(|place| place.parties == first.parties)).collect()
    }
}

/// One party at one barrier.
#[derive(Clone, Debug, Hash)]
pub struct Barrier {
    dir: Arc<str>,
    plan: BarrierPlan,
    party: Option<Party>,
    leaving: Option<Leaving>,
}

#[derive(Clone, Debug, Hash)]
struct Party {
    terms: Terms,
    wait: bool,
    dir: Arc<str>,
    barrier: Arc<str>,
    plan: BarrierPlan,
    /// In which session it asks for its place.
    session: Option<i64>,
    /// A create was sent and never answered.
    doubt: bool,
    rounds: u8,
    asked: usize,
    own: Option<Own>,
    passed: Option<Passage>,
    at: At,
}

/// The own place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Own {
    name: Arc<str>,
    is_watched: bool,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Surveying { made: bool },
    Making,
    Arriving,
    Looking { told: bool },
    Opening,
    Waiting,
    Removing(Then),
}

#[derive(Clone, Copy, Debug, Hash)]
enum Then {
    Survey,
    Held,
    /// Those who stand there say that there are so many parties.
    Differs(u32),
    Wraps(i32),
}

/// A place is given up.
#[derive(Clone, Debug, Hash)]
struct Leaving {
    party: Party,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Which place it has, if any.
    Find,
    Delete,
    /// It passed, and this is left of it.
    Clear,
}

impl Barrier {
    /// A party at the barrier in the directory `dir`.
    pub fn new(dir: Arc<str>, plan: BarrierPlan) -> Self {
        Barrier { dir, plan, party: None, leaving: None }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        match intent {
            Intent::Acquire { terms, wait, prev: _ } => {
                match self.party.as_mut().filter(|party| party.terms.attempt == terms.attempt) {
                    Some(party) => party.again(wait),
                    None => self.party.insert(Party::new(&self.dir, self.plan, terms, wait)).survey(false),
                }
            }
            Intent::Renew { .. } => Ok(Step::Done(Verdict::Renewed)),
            Intent::Release { terms, .. } => {
                let own =
                    self.of(terms.attempt).and_then(|party| Some(child(&party.barrier, &party.own.as_ref()?.name)));
                Ok(match own {
                    Some(own) => Step::Ask([delete(own)].into_iter().collect()),
                    None => gone_on(),
                })
            }
            Intent::Undo { terms, .. } => {
                let party = self.party.take_if(|party| party.terms.attempt == terms.attempt);
                let known = self.leaving.take().map(|leaving| leaving.party);
                let known = known.filter(|party| party.terms.attempt == terms.attempt);
                let Some(mut party) = party.or(known) else { return Ok(Step::Done(Verdict::Undone)) };
                party.doubt |= matches!(party.at, At::Arriving);
                let mut leaving = Leaving { party, stage: Stage::Find };
                let step = leaving.begin();
                self.leaving = Some(leaving);
                step
            }
        }
    }

    fn of(&self, attempt: AttemptId) -> Option<&Party> {
        self.party.as_ref().filter(|party| party.terms.attempt == attempt)
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        match op {
            Op::Acquire => self.party.as_mut().map_or(Ok(Step::Ignore), |party| party.reply(replies)),
            Op::Renew => Ok(Step::Ignore),
            Op::Release => deleted(op, first(op, replies)?).map(|_| gone_on()),
            Op::Undo => self.leaving.as_mut().map_or(Ok(Step::Ignore), |leaving| leaving.reply(replies)),
        }
    }
}

impl Party {
    fn new(dir: &Arc<str>, plan: BarrierPlan, terms: Terms, wait: bool) -> Self {
        let (dir, barrier) = (dir.clone(), child(dir, GATES[1]));
        let (session, doubt, rounds, asked, own, passed, at) = (None, false, 0, 0, None, None, At::Rest);
        Party { terms, wait, dir, barrier, plan, session, doubt, rounds, asked, own, passed, at }
    }

    fn prefix(&self) -> Arc<str> {
        protection(self.terms.attempt)
    }

    fn own_path(&self) -> Option<Arc<str>> {
        self.own.as_ref().map(|own| child(&self.barrier, &own.name))
    }

    fn again(&mut self, wait: bool) -> Result<Step> {
        self.doubt |= matches!(self.at, At::Arriving);
        (self.wait, self.rounds) = (wait, 0);
        match (self.passed, &self.own) {
            (Some(passage), _) => granted(passage),
            (None, Some(_)) => self.look(),
            (None, None) => self.survey(false),
        }
    }

    fn ask(&mut self, at: At, requests: Requests) -> Result<Step> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(restless());
        }
        (self.at, self.asked) = (at, requests.len());
        Ok(Step::Ask(requests))
    }

    fn reads(&self) -> [Request; 2] {
        [on(&READ, &self.barrier), on(&CHILDREN, &self.barrier)]
    }

    fn survey(&mut self, made: bool) -> Result<Step> {
        let reads = [on(&CHILDREN, &self.dir)].into_iter().chain(self.reads());
        self.ask(At::Surveying { made }, synced(&self.dir, reads))
    }

    fn look(&mut self) -> Result<Step> {
        let Some(own) = self.own_path() else { return self.survey(false) };
        let reads = self.reads().into_iter().chain([on(&WATCH, &own), on(&READ, &own)]);
        self.ask(At::Looking { told: false }, synced(&self.dir, reads))
    }

    fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        match mem::replace(&mut self.at, At::Rest) {
            at @ (At::Rest | At::Waiting) => {
                self.at = at;
                Ok(Step::Ignore)
            }
            _ if replies.len() != self.asked => Err(garbled(OP)),
            At::Surveying { made } => self.surveyed(made, after_sync(OP, replies)?),
            At::Making => match replies.last() {
                Some(Reply::Error { code, .. }) if code != "NodeExists" => Err(unmade(replies)),
                _ => self.survey(true),
            },
            At::Arriving => {
                let [made, node, list] = replies else { return Err(garbled(OP)) };
                match created(OP, made).inspect_err(|error| self.doubt |= error.retryable())? {
                    None => self.survey(false),
                    Some((path, stat)) => {
                        let name = path.strip_prefix(&*self.barrier).and_then(|path| path.strip_prefix('/'));
                        let name = name.filter(|name| name.starts_with(&*self.prefix())).ok_or_else(|| garbled(OP))?;
                        self.own = Some(Own { name: name.into(), is_watched: false });
                        self.session = Some(stat.owner);
                        match Seen::of("barrier", &self.dir, node, list)? {
                            Some(seen) => self.stands(&seen, false),
                            None => self.look(),
                        }
                    }
                }
            }
            At::Looking { told } => self.looked(told, after_sync(OP, replies)?),
            At::Opening => {
                is_done(OP, first(OP, replies)?)?;
                self.look()
            }
            At::Removing(then) => match first(OP, replies)? {
                Reply::Error { code, .. } if code == "BadVersion" => self.look(),
                reply => {
                    deleted(OP, reply)?;
                    (self.own, self.doubt) = (None, false);
                    self.removed(then)
                }
            },
        }
    }

    fn surveyed(&mut self, made: bool, reads: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let [beside, node, list] = reads else { return Err(garbled(OP)) };
        let beside = names(OP, beside)?.unwrap_or_default().1;
        if let Some(what) = beside.iter().find_map(|name| Recipe::beside_gate(name, GATES[1])) {
            return Err(foreign("barrier", &self.dir, what));
        }
        let Some(seen) = Seen::of("barrier", &self.dir, node, list)? else {
            if self.doubt {
                return Err(lost());
            }
            if made {
                return Err(unmade(&[]));
            }
            let ends = self.barrier.match_indices('/').map(|(end, _)| end).skip(1).chain([self.barrier.len()]);
            let containers = ends.map(|end| on(&CONTAINER, &self.barrier[..end].into())).collect();
            return self.ask(At::Making, containers);
        };
        let prefix = self.prefix();
        if let Some(mine) = seen.places.iter().find(|place| place.name.starts_with(&*prefix)) {
            self.own = Some(Own { name: mine.name.into(), is_watched: false });
            return self.look();
        }
        // What was asked for in this session was not done, and will not be: it would be there. In one that is over it
        // may have passed.
        if self.doubt && self.session != Some(seen.session) {
            return Err(lost());
        }
        (self.doubt, self.session) = (false, Some(seen.session));
        let standing = seen.standing();
        match standing.first() {
            Some(first) if first.parties != self.plan.parties => return Err(differs(self.plan, first.parties)),
            _ if !self.wait && standing.len() + 1 < self.parties() => return Ok(held(None)),
            _ => {}
        }
        let path = child(&self.barrier, &format!("{prefix}{PARTY}{}-", self.plan.parties));
        let create = Request::new(&CREATE, path, [Arg::Text(self.terms.card.clone())]);
        let requests = [create].into_iter().chain(self.reads()).collect();
        self.ask(At::Arriving, requests)
    }

    fn parties(&self) -> usize {
        usize::try_from(self.plan.parties).unwrap_or(usize::MAX)
    }

    fn looked(&mut self, told: bool, reads: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        let [node, list, _, mine] = reads else { return Err(garbled(OP)) };
        let Some(mine) = read(OP, mine)? else { return Err(lost()) };
        if let Some(passage) = passage(&mine)? {
            self.passed = Some(passage);
            self.at = At::Rest;
            return granted(passage);
        }
        if !mine.stat.ours() {
            return self.remove(Then::Survey);
        }
        self.session = Some(mine.stat.session);
        if let Some(own) = &mut self.own {
            own.is_watched = true;
        }
        match Seen::of("barrier", &self.dir, node, list)? {
            Some(seen) => self.stands(&seen, told),
            None => self.look(),
        }
    }

    /// Goes on as those let it who stand there, the own place among them.
    fn stands(&mut self, seen: &Seen<'_>, told: bool) -> Result<Step> {
        let Some(own) = self.own.clone() else { return self.survey(false) };
        let Some(mine) = seen.places.iter().find(|place| *place.name == *own.name) else { return self.look() };
        if !(0..=LAST_SEQUENCE).contains(&mine.number) {
            return self.remove(Then::Wraps(mine.number));
        }
        // It passed, or those before it were others when it came.
        if mine.number <= seen.last {
            return if own.is_watched && !told { self.remove(Then::Survey) } else { self.look() };
        }
        let standing = seen.standing();
        match standing.first() {
            Some(first) if first.parties != self.plan.parties => return self.remove(Then::Differs(first.parties)),
            _ => {}
        }
        if let Some(pass) = standing.get(..self.parties()) {
            return self.open(seen, pass);
        }
        match () {
            () if !self.wait => self.remove(Then::Held),
            () if told || !own.is_watched => self.look(),
            () => {
                self.at = At::Waiting;
                let remaining = self.plan.ttl;
                Ok(Step::Wait(Wait { at: None, remaining, position: 0, prev: None }))
            }
        }
    }

    fn open(&mut self, seen: &Seen<'_>, pass: &[Place<'_>]) -> Result<Step> {
        let last = pass.last().map_or(seen.last, |place| place.number);
        let barrier = Change::Set(self.barrier.clone(), last.to_string().into(), seen.version);
        let pass = pass
            .iter()
            .enumerate()
            .map(|(index, place)| Change::Set(child(&self.barrier, place.name), format!("{PASSED}{index}").into(), 0));
        let opens = together(&self.barrier, [barrier].into_iter().chain(pass));
        self.ask(At::Opening, [opens].into_iter().collect())
    }

    fn remove(&mut self, then: Then) -> Result<Step> {
        match self.own_path() {
            Some(own) => self.ask(At::Removing(then), [leave(own)].into_iter().collect()),
            None => self.removed(then),
        }
    }

    fn removed(&mut self, then: Then) -> Result<Step> {
        match then {
            Then::Survey => self.survey(false),
            Then::Held => Ok(held(None)),
            Then::Differs(parties) => Err(differs(self.plan, parties)),
            Then::Wraps(number) => Err(wrapping(&self.barrier, number)),
        }
    }

    fn told(&mut self, path: &str) -> Result<Step> {
        if self.own_path().as_deref() != Some(path) {
            return Ok(Step::Ignore);
        }
        match &mut self.at {
            At::Looking { told } => {
                *told = true;
                Ok(Step::Ignore)
            }
            At::Waiting => {
                self.rounds = 0;
                self.look()
            }
            _ => Ok(Step::Ignore),
        }
    }
}

impl Leaving {
    fn begin(&mut self) -> Result<Step> {
        let Party { dir, barrier, own, doubt, passed, .. } = &self.party;
        let own = own.as_ref().map(|own| child(barrier, &own.name));
        let list = || synced(dir, [on(&CHILDREN, barrier)]);
        let (stage, requests) = match (passed, own) {
            (Some(_), Some(own)) => (Stage::Clear, [delete(own)].into_iter().collect()),
            (None, Some(own)) => {
                (Stage::Delete, [leave(own.clone()), on(&READ, &own)].into_iter().chain(list()).collect())
            }
            (None, None) if *doubt => (Stage::Find, list()),
            (passed, None) => return given_up(*passed),
        };
        self.stage = stage;
        Ok(Step::Ask(requests))
    }

    fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Undo;
        match self.stage {
            Stage::Find => {
                let Some((session, names)) = names(OP, first(OP, after_sync(OP, replies)?)?)? else {
                    return Err(lost());
                };
                let prefix = self.party.prefix();
                match names.into_iter().find(|name| name.starts_with(&*prefix)) {
                    Some(name) => {
                        self.party.own = Some(Own { name: name.into(), is_watched: false });
                        self.begin()
                    }
                    None if self.party.session == Some(session) => given_up(None),
                    None => Err(lost()),
                }
            }
            Stage::Delete => {
                let [left, mine, list @ ..] = replies else { return Err(garbled(OP)) };
                let session = names(OP, first(OP, after_sync(OP, list)?)?)?.map(|(session, _)| session);
                match (left, read(OP, mine)?) {
                    (Reply::Nil, _) => given_up(None),
                    (_, Some(mine)) => match passage(&mine)? {
                        Some(passage) => {
                            self.party.passed = Some(passage);
                            self.begin()
                        }
                        None => deleted(OP, left).and_then(|_| Err(garbled(OP))),
                    },
                    // This one deleted it when it was asked before, unless its session ended.
                    (_, None) if session.is_none() || session == self.party.session => given_up(None),
                    (_, None) => Err(lost()),
                }
            }
            Stage::Clear => {
                deleted(OP, first(OP, replies)?)?;
                given_up(self.party.passed)
            }
        }
    }
}

/// What stands before the index of a place that passed.
const PASSED: &str = "passed ";

/// How a place passed, if it has.
fn passage(mine: &Read) -> Result<Option<Passage>> {
    let Some(index) = mine.data.strip_prefix(PASSED) else { return Ok(None) };
    let index = index.parse().map_err(|_| garbled("barrier"))?;
    let generation = i64::try_from(mine.mzxid).map_err(|_| garbled("barrier"))?;
    let passage = Passage::new(index, generation).ok_or_else(|| {
        let message = "the ensemble has had more leaders than a generation can count; build it anew";
        Error::unsupported("barrier", message)
    })?;
    Ok(Some(passage))
}

/// Deletes a place that did not pass.
fn leave(path: Arc<str>) -> Request {
    Request::new(&DELETE, path, [Arg::Int(0)])
}

fn granted(passage: Passage) -> Result<Step> {
    passed(passage.token().n).ok_or_else(|| garbled("barrier"))
}

fn given_up(passed: Option<Passage>) -> Result<Step> {
    passed.map_or(Ok(Step::Done(Verdict::Undone)), granted)
}

/// How many stand there.
pub(super) fn standing<'a>(dir: Arc<str>) -> Inquiry<'a, Answer> {
    let barrier = child(&dir, GATES[1]);
    let reads = synced(&dir, [on(&CHILDREN, &dir), on(&READ, &barrier), on(&CHILDREN, &barrier)]);
    Inquiry::ask(reads, move |replies| {
        Inquiry::Done(
            after_sync("barrier", replies).and_then(|reads| count("barrier", &dir, reads)).map(Answer::Standing),
        )
    })
}

/// The same by the answers to the reads of a barrier and what lies beside it.
pub(super) fn count(doing: &'static str, dir: &str, reads: &[Reply]) -> Result<u32> {
    let [beside, node, list] = reads else { return Err(garbled(doing)) };
    let beside = names(doing, beside)?.unwrap_or_default().1;
    if let Some(what) = beside.iter().find_map(|name| Recipe::beside_gate(name, GATES[1])) {
        return Err(foreign(doing, dir, what));
    }
    let seen = Seen::of(doing, dir, node, list)?;
    Ok(seen.map_or(0, |seen| u32::try_from(seen.standing().len()).unwrap_or(u32::MAX)))
}

impl Protocol for Barrier {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(StoreEvent::Gone { path } | StoreEvent::Changed { path }) => {
                self.party.as_mut().map_or(Ok(Step::Ignore), |party| party.told(path))
            }
            Input::Event(_) => Ok(Step::Ignore),
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
