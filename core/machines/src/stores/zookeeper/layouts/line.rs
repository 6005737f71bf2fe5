//! A line of nodes below one directory, as Apache Curator's locks (`LockInternals`, `StandardLockInternalsDriver`,
//! `ProtectedUtils`) and kazoo's form it.
//!
//! Every contender creates an ephemeral sequential child of the lock's directory, called as its [`Recipe`] says; the
//! children are sorted by the number, and whoever has nobody to wait for before it holds. Every other watches the one
//! before it that it waits for. The attempt is in the name, so a node whose creation was never answered is found again.
//! Calls and answers: [`super`].
//!
//! Where this differs from those libraries, what other processes see stays the same: creation and listing go out
//! together; who stood second is the holder when the first goes, without listing again; who stood at the front (see
//! `front.rs`) and does again by its number is the holder without any listing; a lock is granted only for a node of the
//! session that is alive now; a mere try creates nothing while somebody is there; where the nodes of another recipe
//! lie, whose users would not see ours, nothing is granted.
//!
//! A server may be cut off from the leader and not know it: it then answers reads from the past, and the session it
//! serves may have ended. So every read goes behind a `sync`, or behind a create, in the same write, and each answer is
//! at least as new as its question: only then may a lease count from there.
//!
//! ```text
//! acquire    input                               next
//! (begin)    new attempt, waiting                Creating: create, children
//!            the same, twice at the front        Following: create
//!            either, gives an earlier one back   the same, behind: delete that one's
//!            same attempt, which waited          Looking:  sync, exists mine, watch the one before
//!            new, trying | same attempt again    Listing:  sync, children
//! Creating   NoNode, of a semaphore              Above:    sync, children of its directory
//!            NoNode                              Creating: containers down to the directory, create, children
//!            NoNode, containers were asked       failed
//!            created + list                      list
//! Following  NoNode                              as Creating
//!            numbered next, session known        granted
//!            created                             Listing
//! Above      another kind of lock                failed
//!            nothing like that                   Creating, as after NoNode
//! Listing    list                                list
//! list       nodes of an attempt to be given back
//!                                                Removing, then Listing
//!            no node of mine: waiting, or empty  Creating      trying, not empty: held
//!            somebody is there who would not see mine, or mine is numbered past the limit
//!                                                Removing, then failed
//!            mine is behind others, trying       Removing, then held
//!            nobody to wait for, session known   granted
//!            nobody to wait for                  Looking:  sync, exists mine
//!            mine is behind others               Looking:  sync, [exists mine unless known], watch the one before
//! Looking    mine NoNode | the other NoNode      Listing
//!            mine is of another session          Removing, then Listing
//!            the watch is of another session     Listing (mine not known any more)
//!            mine is there, nobody before        granted
//!            the watch stands                    Waiting, or at once what was told meanwhile
//! Waiting    gone, and none was before it        granted; a writer of Curator's: Listing
//!            gone | changed                      Listing
//! Removing   deleted | NoNode                    as said
//!
//! renew      sync, exists mine: same node, session -> renewed; otherwise gone
//!            for one who heeds: sync, watch mine, get mine -> wanted, if Curator's message lies there
//! change     see [`change`](super::change)
//! release    delete mine -> released; NoNode, or a create in doubt -> as undo, then what was found
//! undo       [delete mine, if known], then sync, children -> delete all that begin with the attempts' uuids
//! ```

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::change::Changing;
use super::front::Front;
use super::recipe::{REVOKE, Recipe};
use super::sweep::Sweep;
use super::{CHILDREN, CREATE, EXISTS, GET, Stat, WATCH};
use super::{after_sync, child, created, delete, deleted, first, found, garbled, names, on, stat, synced, unmade};
use crate::error::{Error, Kind, Result};
use crate::lease::ReleaseOutcome;
use crate::protocol::{
    Arg, AttemptId, Change, Grant, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, StoreEvent, Term,
    Terms, Traits, Verdict, Wait,
};
use crate::token::Tokens;

/// The highest sequence number accepted: about a million below the one after which ZooKeeper's counter turns negative
/// and text order would put new nodes first.
pub const LAST_SEQUENCE: i32 = i32::MAX - (1 << 20) + 1;

/// A queue that changes under each of so many looks in a row is left alone for a while; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 32;

/// One contender for one lock, as a machine.
#[derive(Clone, Debug, Hash)]
pub struct Line {
    dir: Arc<str>,
    recipe: Recipe,
    above: Option<Arc<str>>,
    contender: Option<Contender>,
    /// The node of the contender before, if it had nobody to wait for and is deleted.
    front: Option<Front>,
    renewing: Renewing,
    /// Whoever holds wants to hear when it is asked back.
    heeds: bool,
    /// The attempt for which a release was begun last; a second one cannot tell who deleted the node.
    released: Option<AttemptId>,
    release: Option<Sweep>,
    undo: Option<Sweep>,
}

impl Line {
    /// A contender for the lock kept in the directory `dir`, an absolute path (see
    /// [`directory`](super::paths::directory)).
    pub fn new(dir: Arc<str>, recipe: Recipe) -> Self {
        Line {
            dir,
            recipe,
            above: None,
            contender: None,
            front: None,
            renewing: Renewing::No,
            heeds: false,
            released: None,
            release: None,
            undo: None,
        }
    }

    /// The same for the lock of a semaphore in the directory `above`, which is not made where something else lies.
    pub(super) fn of_permits(dir: Arc<str>, above: Arc<str>) -> Self {
        Line { above: Some(above), ..Line::new(dir, Recipe::Mutex) }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        match intent {
            Intent::Acquire { terms, wait, prev } => {
                let given = prev.map(|prev| self.recipe.prefix(prev.terms.attempt));
                match &mut self.contender {
                    Some(contender) if contender.terms.attempt == terms.attempt => contender.again(wait, given),
                    _ => {
                        self.heeds = false;
                        let before = self.contender.take();
                        let contender = Contender { front: self.front.take(), ..Contender::new(self, terms, wait) };
                        self.contender.insert(contender).begin(before, given)
                    }
                }
            }
            Intent::Renew { terms, ttl } if ttl > terms.ttl => {
                let message =
                    "a lock on ZooKeeper lasts as long as its session; build the lock with a longer ttl instead";
                Err(Error::unsupported("renew", message))
            }
            Intent::Renew { terms, .. } => {
                let Some((dir, own)) = self.held(terms.attempt) else {
                    return Err(Error::new(Kind::Internal, "renew", "this attempt holds nothing"));
                };
                let mine = child(dir, &own.name);
                // The watch first: what is written behind it is told, and what was written before it is read.
                let requests = match self.heeds {
                    true => synced(dir, [on(&WATCH, &mine), on(&GET, &mine)]),
                    false => synced(dir, [on(&EXISTS, &mine)]),
                };
                self.renewing = Renewing::Look;
                Ok(Step::Ask(requests))
            }
            Intent::Release { terms, .. } => {
                let own = self.held(terms.attempt).map(|(_, own)| own.name.clone());
                let doubt = self.contender.as_ref().is_some_and(|c| c.doubt);
                let again = self.released.replace(terms.attempt) == Some(terms.attempt);
                let prefixes = [self.recipe.prefix(terms.attempt)].into_iter().collect();
                let mut sweep = Sweep::new(Op::Release, self.dir.clone(), prefixes, own, again);
                if self.recipe.is_shared() {
                    sweep = sweep.of_several();
                }
                Ok(self.release.insert(sweep).begin(!doubt))
            }
            Intent::Undo { terms, prev } => {
                let own = self.held(terms.attempt).map(|(_, own)| own.name.clone());
                // Else the end of the one before, told while this sweeps, would still grant.
                self.contender.take_if(|contender| contender.terms.attempt == terms.attempt);
                let attempts = [Some(terms.attempt), prev.map(|prev| prev.terms.attempt)];
                let prefixes = attempts.into_iter().flatten().map(|attempt| self.recipe.prefix(attempt)).collect();
                let sweep = Sweep::new(Op::Undo, self.dir.clone(), prefixes, own, false);
                Ok(self.undo.insert(sweep).begin(true))
            }
        }
    }

    /// The node by which this attempt stands there, once that is known.
    pub(super) fn held_by(&self, attempt: AttemptId) -> Option<&Own> {
        self.held(attempt).map(|(_, own)| own)
    }

    fn held(&self, attempt: AttemptId) -> Option<(&Arc<str>, &Own)> {
        let contender = self.contender.as_ref().filter(|c| c.terms.attempt == attempt)?;
        Some((&contender.dir, contender.own.as_ref()?))
    }

    fn renewed(&mut self, replies: &[Reply]) -> Result<Step> {
        let Some(contender) = self.contender.as_mut() else { return Ok(Step::Ignore) };
        match (mem::take(&mut self.renewing), &contender.own) {
            (Renewing::Look, Some(own)) => {
                let reads = after_sync(Op::Renew, replies)?;
                let data = reads.get(1).map(|read| found(Op::Renew, read)).transpose()?.flatten();
                Ok(Step::Done(match stat(Op::Renew, first(Op::Renew, reads)?)? {
                    Some(stat) if stat == own.stat => match data {
                        Some((_, data)) if data == REVOKE => Verdict::Wanted,
                        _ => Verdict::Renewed,
                    },
                    _ => Verdict::Gone(ReleaseOutcome::Expired),
                }))
            }
            (Renewing::Change(mut changing), Some(_)) => {
                let step = changing.reply(replies)?;
                match &step {
                    Step::Ask(_) => self.renewing = Renewing::Change(changing),
                    _ => contender.own = Some(changing.into_own()),
                }
                Ok(step)
            }
            _ => Ok(Step::Ignore),
        }
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        let sweep = match op {
            Op::Acquire => return self.contender.as_mut().map_or(Ok(Step::Ignore), |c| c.reply(replies)),
            Op::Renew => return self.renewed(replies),
            Op::Release => &mut self.release,
            Op::Undo => &mut self.undo,
        };
        let Some(mut current) = sweep.take() else { return Ok(Step::Ignore) };
        let step = current.reply(replies)?;
        *sweep = matches!(step, Step::Ask(_)).then_some(current);
        if matches!(step, Step::Done(Verdict::Released(ReleaseOutcome::Released))) {
            let released = self.contender.as_ref().filter(|contender| Some(contender.terms.attempt) == self.released);
            self.front = released.and_then(|contender| contender.front);
        }
        Ok(step)
    }
}

/// What of a hold is asked for.
#[derive(Clone, Debug, Default, Hash)]
enum Renewing {
    #[default]
    No,
    /// Whether it is there.
    Look,
    Change(Changing),
}

impl Protocol for Line {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(event) => match (event, &mut self.contender) {
                (StoreEvent::Gone { path }, Some(contender)) => contender.told(path, true),
                (StoreEvent::Changed { path }, Some(contender)) => contender.told(path, false),
                _ => Ok(Step::Ignore),
            },
        };
        step.unwrap_or_else(|error| Step::Done(Verdict::Failed(error)))
    }

    fn change(&mut self, change: Change) -> Step {
        let Change { terms, token, units, .. } = change;
        let Some(contender) = self.contender.as_mut().filter(|contender| contender.terms.attempt == terms.attempt)
        else {
            return Step::Done(Verdict::Failed(Error::new(Kind::Internal, "change", "this attempt holds nothing")));
        };
        let Some(own) = &contender.own else {
            return Step::Done(Verdict::Failed(Error::new(Kind::Internal, "change", "this attempt holds nothing")));
        };
        let (changing, step) = match Changing::begin(&self.dir, self.recipe, own, &terms, token, units) {
            Ok(begun) => begun,
            Err(error) => return Step::Done(Verdict::Failed(error)),
        };
        // From now on it may have more than one node.
        contender.doubt = true;
        self.renewing = Renewing::Change(changing);
        step
    }

    fn heed(&mut self) {
        self.heeds = true;
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: !self.recipe.is_shared(), push: Push::Watch, bound: true }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}

/// The node by which something is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) name: Arc<str>,
    pub(super) stat: Stat,
}

#[derive(Clone, Debug, Hash)]
enum At {
    Rest,
    Creating { parents: bool },
    Following,
    Above,
    Listing,
    Looking { unsure: Option<Arc<str>>, before: Option<Before>, told: Option<bool> },
    Waiting(Before),
    Removing(Then),
}

/// The nearest of those before it that it waits for, and how many of them there are.
#[derive(Clone, Debug, Hash)]
struct Before {
    path: Arc<str>,
    ahead: usize,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Then {
    List,
    Held,
    Refuse(i32),
    Foreign(&'static str),
    /// Its nodes were those of the attempt that is given back.
    Given,
}

/// An earlier attempt of the same client, given back by the one that comes after it.
#[derive(Clone, Debug, Hash)]
enum Giving {
    Nothing,
    /// Its nodes begin so; whether one is left is not known.
    Back(Arc<str>),
    /// The first request deletes its only node.
    Now(Arc<str>),
    /// What became of it, until that is told.
    Done(ReleaseOutcome),
}

impl Giving {
    /// The outcome, once.
    fn told(&mut self) -> Option<ReleaseOutcome> {
        match mem::replace(self, Giving::Nothing) {
            Giving::Done(outcome) => Some(outcome),
            other => {
                *self = other;
                None
            }
        }
    }
}

#[derive(Clone, Debug, Hash)]
struct Contender {
    terms: Terms,
    wait: bool,
    dir: Arc<str>,
    recipe: Recipe,
    above: Option<Arc<str>>,
    prefix: Arc<str>,
    /// A create was sent and never answered; from a session that was given up it may still be done later.
    doubt: bool,
    rounds: u8,
    asked: usize,
    /// The node of this attempt, once the session that keeps it alive is known.
    own: Option<Own>,
    /// What this attempt gives back of an earlier one.
    giving: Giving,
    /// The node of the contender before, as in the line; from the grant on this one's, if it had nobody to wait for.
    front: Option<Front>,
    at: At,
}

impl Contender {
    fn new(line: &Line, terms: Terms, wait: bool) -> Self {
        let Line { dir, recipe, above, .. } = line;
        let (dir, recipe, above, prefix) = (dir.clone(), *recipe, above.clone(), recipe.prefix(terms.attempt));
        let (doubt, rounds, asked, own, giving, front, at) = (false, 0, 0, None, Giving::Nothing, None, At::Rest);
        Contender { terms, wait, dir, recipe, above, prefix, doubt, rounds, asked, own, giving, front, at }
    }

    /// The contender `before` is that of the attempt that is `given` back, if one is: so its nodes begin.
    fn begin(&mut self, before: Option<Contender>, given: Option<Arc<str>>) -> Result<Step> {
        if let Some(prefix) = given {
            // Whoever holds knows its node. Where there may be another one, the line tells.
            let before = before.filter(|before| before.prefix == prefix && !before.doubt && self.wait);
            let (own, front) = before.map_or((None, None), |before| (before.own, before.front));
            (self.giving, self.front) = (own.map_or(Giving::Back(prefix), |own| Giving::Now(own.name)), front);
        }
        match self.front {
            _ if !self.wait || matches!(self.giving, Giving::Back(_)) => self.list(),
            Some(front) if front.is_likely_again() => {
                let requests = self.giving_back().into_iter().chain([self.creation()]).collect();
                self.ask(At::Following, requests)
            }
            _ => self.create(false),
        }
    }

    /// What deletes the node of the attempt that is given back, if that is to be the first request.
    fn giving_back(&self) -> Option<Request> {
        let Giving::Now(name) = &self.giving else { return None };
        Some(delete(child(&self.dir, name)))
    }

    /// Whoever waits looks after its own node and the one before it alone: of a line of ten thousand, in which each
    /// does so in a while, nobody could send all the names.
    fn again(&mut self, wait: bool, given: Option<Arc<str>>) -> Result<Step> {
        self.doubt |= matches!(self.at, At::Creating { .. } | At::Following);
        (self.wait, self.rounds) = (wait, 0);
        if !matches!(self.giving, Giving::Done(_)) {
            self.giving = given.map_or(Giving::Nothing, Giving::Back);
        }
        match (mem::replace(&mut self.at, At::Rest), self.own.take()) {
            (At::Waiting(before), Some(own)) if wait => self.look(Some(own.name), Some(before)),
            _ => self.list(),
        }
    }

    fn ask(&mut self, at: At, requests: Requests) -> Result<Step> {
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            let message = "the lock's directory changed each time it was looked at; try again";
            return Err(Error::new(Kind::Unavailable, "acquire", message));
        }
        (self.at, self.asked) = (at, requests.len());
        Ok(Step::Ask(requests))
    }

    fn create(&mut self, parents: bool) -> Result<Step> {
        let mut requests: Requests = self.giving_back().into_iter().collect();
        if parents {
            let ends = self.dir.match_indices('/').map(|(end, _)| end).skip(1).chain([self.dir.len()]);
            requests.extend(ends.map(|end| on(self.recipe.parent(), &self.dir[..end].into())));
        }
        requests.push(self.creation());
        requests.push(on(&CHILDREN, &self.dir));
        self.ask(At::Creating { parents }, requests)
    }

    /// What makes the node of this attempt.
    fn creation(&self) -> Request {
        let path = [&*self.dir, "/", &*self.prefix, self.recipe.word()].concat();
        Request::new(&CREATE, path.into(), [Arg::Text(self.terms.card.clone())])
    }

    /// Whether the node of this attempt was made; not where the directory is missing.
    fn is_made(&mut self, made: &Reply) -> Result<bool> {
        const OP: Op = Op::Acquire;
        let made = created(OP, made).inspect_err(|error| self.doubt |= error.retryable())?;
        let Some((path, stat)) = made else { return Ok(false) };
        let name = path.strip_prefix(&*self.dir).and_then(|path| path.strip_prefix('/'));
        let name = name.filter(|name| name.starts_with(&*self.prefix)).ok_or_else(|| garbled(OP))?;
        self.own = stat.ours().then(|| Own { name: name.into(), stat });
        Ok(true)
    }

    /// The directory is missing.
    fn make_directory(&mut self) -> Result<Step> {
        match self.above.clone() {
            Some(above) => self.ask(At::Above, synced(&above, [on(&CHILDREN, &above)])),
            None => self.create(true),
        }
    }

    fn list(&mut self) -> Result<Step> {
        self.ask(At::Listing, synced(&self.dir, [on(&CHILDREN, &self.dir)]))
    }

    fn remove(&mut self, names: &[&str], then: Then) -> Result<Step> {
        self.own = None;
        if names.is_empty() {
            return self.removed(then, false);
        }
        self.ask(At::Removing(then), names.iter().map(|name| delete(child(&self.dir, name))).collect())
    }

    fn reply(&mut self, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        match mem::replace(&mut self.at, At::Rest) {
            at @ (At::Rest | At::Waiting(_)) => {
                self.at = at;
                Ok(Step::Ignore)
            }
            _ if replies.len() != self.asked => Err(garbled(OP)),
            at => {
                let replies = self.given_back(replies)?;
                self.answered(at, replies)
            }
        }
    }

    /// What is answered besides what became of the attempt that is given back.
    fn given_back<'a>(&mut self, replies: &'a [Reply]) -> Result<&'a [Reply]> {
        let (Giving::Now(_), [given, replies @ ..]) = (&self.giving, replies) else { return Ok(replies) };
        // What followed it is as unsure.
        let freed = deleted(Op::Acquire, given).inspect_err(|error| self.doubt |= error.retryable())?;
        self.front = self.front.filter(|_| freed);
        self.giving = Giving::Done(if freed { ReleaseOutcome::Released } else { ReleaseOutcome::Expired });
        Ok(replies)
    }

    fn answered(&mut self, at: At, replies: &[Reply]) -> Result<Step> {
        const OP: Op = Op::Acquire;
        match at {
            At::Rest | At::Waiting(_) => Ok(Step::Ignore),
            At::Creating { parents } => {
                let [containers @ .., made, list] = replies else { return Err(garbled(OP)) };
                match self.is_made(made)? {
                    true => self.placed(list),
                    false if !parents => self.make_directory(),
                    // An ancestor that exists but may not be written to refuses too: only now do their answers matter.
                    false => Err(unmade(containers)),
                }
            }
            At::Following => match self.is_made(first(OP, replies)?)? {
                true => self.followed(),
                false => self.make_directory(),
            },
            At::Above => {
                let names = names(OP, first(OP, after_sync(OP, replies)?)?)?.unwrap_or_default().1;
                match names.iter().find_map(|name| Recipe::beside_permits(name)) {
                    Some(what) => Err(foreign("acquire", self.above.as_ref().unwrap_or(&self.dir), what)),
                    None => self.create(true),
                }
            }
            At::Listing => self.placed(first(OP, after_sync(OP, replies)?)?),
            At::Looking { unsure, before, told } => {
                let mut each = after_sync(OP, replies)?.iter();
                let mut next = || each.next().ok_or_else(|| garbled(OP));
                if let Some(name) = unsure {
                    match stat(OP, next()?)? {
                        None => return self.list(),
                        Some(stat) if !stat.ours() => return self.remove(&[&*name], Then::List),
                        Some(stat) => self.own = Some(Own { name, stat }),
                    }
                }
                let Some(before) = before else { return self.granted() };
                let watched = stat(OP, next()?)?;
                if watched.map(|stat| stat.session) != self.own.as_ref().map(|own| own.stat.session) {
                    return self.list();
                }
                if let Some(gone) = told {
                    return self.moved(before, gone);
                }
                let position = u32::try_from(before.ahead - 1).unwrap_or(u32::MAX);
                // The end of the one before is told, however its holder ends; the timer only guards against a lost
                // event. Far back in the line there is time for that.
                let remaining = self.terms.ttl.saturating_mul(before.ahead.max(1).ilog2() + 1);
                self.at = At::Waiting(before);
                Ok(Step::Wait(Wait { at: None, remaining, position, prev: self.giving.told() }))
            }
            At::Removing(then) => {
                let mut freed = false;
                for reply in replies {
                    freed |= deleted(OP, reply)?;
                }
                self.removed(then, freed)
            }
        }
    }

    fn removed(&mut self, then: Then, freed: bool) -> Result<Step> {
        match then {
            Then::List => self.list(),
            Then::Given => {
                self.giving = Giving::Done(if freed { ReleaseOutcome::Released } else { ReleaseOutcome::Unknown });
                self.list()
            }
            Then::Held => Ok(held(self.giving.told())),
            Then::Refuse(sequence) => Err(wrapping(&self.dir, sequence)),
            Then::Foreign(what) => Err(foreign("acquire", &self.dir, what)),
        }
    }

    /// The node of this attempt was made, and nothing was listed.
    fn followed(&mut self) -> Result<Step> {
        let Some((own, earlier)) = self.own.as_ref().zip(self.front) else { return self.list() };
        let number = self.recipe.place(&own.name).and_then(|place| place.parse().ok());
        match number {
            Some(number) if number <= LAST_SEQUENCE && earlier.is_followed_by(number, own.stat.czxid) => {
                self.front = Some(Front::at(number, own.stat.czxid, Some(earlier)));
                self.granted()
            }
            _ => self.list(),
        }
    }

    fn placed(&mut self, list: &Reply) -> Result<Step> {
        let (recipe, earlier) = (self.recipe, self.front.take());
        let (session, names) = names(Op::Acquire, list)?.unwrap_or_default();
        if let Giving::Back(prefix) = &self.giving {
            let given: Vec<_> = names.iter().copied().filter(|name| name.starts_with(&**prefix)).collect();
            if !given.is_empty() {
                return self.remove(&given, Then::Given);
            }
            self.giving = Giving::Done(ReleaseOutcome::Unknown);
        }
        let stranger = names.iter().find_map(|name| recipe.foreign(name));
        // Of two with one number the server's order counts. Nobody sorts the line, which may be long.
        let numbered = |(at, name)| Some((recipe.place(name)?, at, name));
        let line: Vec<(&str, usize, &str)> = names.into_iter().enumerate().filter_map(numbered).collect();
        let is_mine = |name: &str| name.starts_with(&*self.prefix);
        // More than one, if a session that was given up made another later: the first counts, all are removed in the
        // end.
        let mine: Vec<_> = line.iter().map(|(.., name)| *name).filter(|name| is_mine(name)).collect();
        if let Some(what) = stranger {
            return self.remove(&mine, Then::Foreign(what));
        }
        let Some(first) = line.iter().filter(|(.., name)| is_mine(name)).min() else {
            let is_free = !line.iter().any(|(.., name)| recipe.waits_for(name));
            return if self.wait || is_free { self.create(false) } else { Ok(held(self.giving.told())) };
        };
        let (place, _, name) = *first;
        let is_before = |other: &&(&str, usize, &str)| *other < first;
        let ahead: Vec<_> = line.iter().filter(is_before).filter(|(.., name)| recipe.waits_for(name)).collect();
        self.doubt |= mine.len() > 1;
        let sequence = place.parse().map_err(|_| garbled(Op::Acquire))?;
        if !(0..=LAST_SEQUENCE).contains(&sequence) {
            return self.remove(&mine, Then::Refuse(sequence));
        }
        if !ahead.is_empty() && !self.wait {
            return self.remove(&mine, Then::Held);
        }
        let known = self.own.as_ref().is_some_and(|own| *own.name == *name && own.stat.session == session);
        let last = ahead.iter().max().map(|(.., last)| child(&self.dir, last));
        let before = last.map(|path| Before { path, ahead: ahead.len() });
        let unsure = (!known).then(|| Arc::from(name));
        if unsure.is_none() && before.is_none() {
            self.front = self.own.as_ref().map(|own| Front::at(sequence, own.stat.czxid, earlier));
            return self.granted();
        }
        self.look(unsure, before)
    }

    fn look(&mut self, unsure: Option<Arc<str>>, before: Option<Before>) -> Result<Step> {
        let mine = unsure.as_ref().map(|name| on(&EXISTS, &child(&self.dir, name)));
        let requests =
            synced(&self.dir, mine.into_iter().chain(before.as_ref().map(|before| on(&WATCH, &before.path))));
        self.ask(At::Looking { unsure, before, told: None }, requests)
    }

    fn told(&mut self, path: &str, gone: bool) -> Result<Step> {
        match &mut self.at {
            At::Looking { before: Some(before), told, .. } if *before.path == *path => {
                *told = Some(gone || *told == Some(true));
                Ok(Step::Ignore)
            }
            At::Waiting(before) if *before.path == *path => {
                let before = before.clone();
                self.rounds = 0;
                self.moved(before, gone)
            }
            _ => Ok(Step::Ignore),
        }
    }

    fn moved(&mut self, before: Before, gone: bool) -> Result<Step> {
        let is_next = gone && before.ahead == 1 && !self.recipe.may_be_overtaken();
        if is_next { self.granted() } else { self.list() }
    }

    fn granted(&mut self) -> Result<Step> {
        let tokens = self.own.as_ref().and_then(|own| Tokens::one(own.stat.czxid));
        let tokens = Some(tokens.ok_or_else(|| garbled(Op::Acquire))?);
        self.at = At::Rest;
        Ok(Step::Done(Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: self.giving.told() })))
    }
}

/// Somebody else holds it; of an attempt that was given back `prev` is told.
pub(super) fn held(prev: Option<ReleaseOutcome>) -> Step {
    Step::Done(Verdict::Held { remaining: Duration::ZERO, at: None, prev })
}

/// What lies in the directory `dir` is `what`, whose users would not see a node of ours.
pub(super) fn foreign(doing: &'static str, dir: &str, what: &str) -> Error {
    let message = format!(
        "in {dir} there is {what}: its users and those of this lock would not see one another; choose another name, path, \
         layout or kind of lock"
    );
    Error::new(Kind::ForeignLayout, doing, message)
}

pub(super) fn wrapping(dir: &str, sequence: i32) -> Error {
    let message = format!(
        "{dir} has numbered its children up to {sequence}; past {} the numbers turn negative and two could hold the lock. \
         Stop all users of this lock, delete {dir}, start them again: the numbers then begin at 0",
        i32::MAX
    );
    Error::unsupported("acquire", message)
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;
    use crate::protocol::InboxId;
    use crate::rank::Rank;

    fn terms(attempt: u128) -> Terms {
        let second = Duration::from_secs(1);
        let (name, card) = ("lk".into(), "".into());
        Terms {
            name,
            attempt: AttemptId(attempt),
            inbox: InboxId(1),
            ttl: second,
            claim: second,
            card,
            fair: false,
            rank: Rank::LOWEST,
        }
    }

    fn acquire(wait: bool) -> Input<'static> {
        Input::Begin(Intent::Acquire { terms: terms(1), wait, prev: None })
    }

    /// Whatever comes back, a machine neither panics nor asks for ever.
    #[test]
    fn hostile_answers_end_in_a_verdict() {
        let own = format!("{}lock-", Recipe::Mutex.prefix(AttemptId(1)));
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((seed >> 33) % below).unwrap()
        };
        let mut answer = move |call: &str| match (random(12), call) {
            (0, _) => Reply::Error { code: "ConnectionLoss".into(), message: String::new() },
            (1, _) => Reply::List(vec![Reply::Int(random(3)), Reply::Nil, Reply::List(vec![])]),
            (2..5, _) => Reply::Error { code: "NoNode".into(), message: String::new() },
            (_, "create") => {
                let path = format!("/lk/{own}{:010}", random(4));
                Reply::List(vec![Reply::Int(7), Reply::Text(path), Reply::Int(random(20)), Reply::Int(7)])
            }
            (_, "children") => {
                let mut names = vec![Reply::Int(7)];
                for n in 0..random(4) {
                    names.push(Reply::Text(format!("{}{n:010}", if random(3) == 0 { &own } else { "lock-" })));
                }
                Reply::List(names)
            }
            (_, "exists" | "watch") => Reply::List(vec![Reply::Int(7), Reply::Int(9), Reply::Int(7 + random(2))]),
            _ => Reply::Nil,
        };
        let mut longest = 0;
        for round in 0..4_000 {
            let mut machine = Line::new("/lk".into(), Recipe::Mutex);
            let (op, begin) = match round % 4 {
                0 => (Op::Acquire, acquire(true)),
                1 => (Op::Acquire, acquire(false)),
                2 => (Op::Release, Input::Begin(Intent::Release { terms: terms(1), used: 1 })),
                _ => (Op::Undo, Input::Begin(Intent::Undo { terms: terms(1), prev: None })),
            };
            let mut step = machine.step(begin);
            let mut asks = 0;
            while let Step::Ask(requests) = &step {
                asks += 1;
                assert!(!requests.is_empty() && asks <= MAX_ROUNDS, "{machine:?}");
                let mut replies: Vec<_> = requests.iter().map(|request| answer(request.call.name)).collect();
                if round % 7 == 0 {
                    replies.pop();
                }
                step = machine.step(Input::Reply(op, &replies));
            }
            assert!(matches!(step, Step::Done(_) | Step::Wait(_)), "{step:?}");
            longest = longest.max(asks);
        }
        assert!(longest > 8, "the answers are too dull to prove anything: {longest}");
    }

    #[test]
    fn whoever_waits_looks_after_two_nodes_and_not_after_all_and_seldom_far_back() {
        let child = |n: u128| format!("{}lock-{n:010}", Recipe::Mutex.prefix(AttemptId(n + 2)));
        let path = format!("{}lock-{:010}", Recipe::Mutex.prefix(AttemptId(1)), 900);
        let stat = |owner| Reply::List([7, 9, owner].map(Reply::Int).into());
        for (ahead, waits) in [(1, 1), (2, 2), (3, 2), (900, 10)] {
            let mut machine = Line::new("/lk".into(), Recipe::Mutex);
            machine.step(acquire(true));
            let names = (0..ahead).map(child).chain([path.clone()]).map(Reply::Text);
            let list = Reply::List([Reply::Int(7)].into_iter().chain(names).collect());
            let made = [7, 9, 7].map(Reply::Int);
            let [session, czxid, owner] = made;
            let made = Reply::List(vec![session, Reply::Text(format!("/lk/{path}")), czxid, owner]);
            machine.step(Input::Reply(Op::Acquire, &[made, Reply::Shared(Arc::new(list))]));
            let waiting = machine.step(Input::Reply(Op::Acquire, &[Reply::Nil, stat(5)]));
            let second = Duration::from_secs(1);
            let until = |step: &Step| matches!(step, Step::Wait(wait) if wait.remaining == second * waits);
            assert!(until(&waiting), "{ahead} ahead: {waiting:?}");
            let Step::Ask(requests) = machine.step(acquire(true)) else { panic!("it looks") };
            let asked: Vec<_> = requests.iter().map(|request| (request.call.name, &*request.key)).collect();
            let (mine, before) = (format!("/lk/{path}"), format!("/lk/{}", child(ahead - 1)));
            assert_eq!(asked, [("sync", "/lk"), ("exists", &*mine), ("watch", &*before)]);
            let again = machine.step(Input::Reply(Op::Acquire, &[Reply::Nil, stat(7), stat(5)]));
            assert!(until(&again), "{again:?}");
        }
    }

    #[test]
    fn states_that_answer_differently_look_different() {
        let print = |machine: &Line| {
            let mut state = DefaultHasher::new();
            machine.fingerprint(&mut state);
            state.finish()
        };
        let mut machine = Line::new("/lk".into(), Recipe::Mutex);
        let mut seen = vec![print(&machine)];
        let child = |n: i32| format!("{}lock-{n:010}", Recipe::Mutex.prefix(AttemptId(u128::try_from(n).unwrap())));
        let path = Reply::Text(format!("/lk/{}", child(1)));
        let made = Reply::List(vec![Reply::Int(7), path, Reply::Int(9), Reply::Int(7)]);
        let list = Reply::List(vec![Reply::Int(7), Reply::Text(child(0)), Reply::Text(child(1))]);
        let watched = Reply::List(vec![Reply::Int(7), Reply::Int(8), Reply::Int(5)]);
        let gone = StoreEvent::Gone { path: format!("/lk/{}", child(0)).into() };
        let release = || Intent::Release { terms: terms(1), used: 9 };
        for input in [
            acquire(true),
            Input::Reply(Op::Acquire, &[made, list]),
            Input::Event(&gone),
            Input::Reply(Op::Acquire, &[watched]),
            Input::Begin(Intent::Renew { terms: terms(1), ttl: Duration::ZERO }),
            Input::Begin(release()),
            Input::Reply(Op::Release, &[Reply::Nil]),
            Input::Begin(Intent::Undo { terms: terms(1), prev: None }),
        ] {
            machine.step(input);
            assert!(!seen.contains(&print(&machine)), "{machine:?}");
            seen.push(print(&machine));
        }
    }
}
