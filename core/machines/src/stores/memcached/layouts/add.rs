//! The layout `add`, as a machine: the lock is a value that is stored where none is, and that ends by itself.
//!
//! Every request is answered by what lies there afterwards (see [`super`]), and that is what counts: whose it is, by
//! the attempt in it, under which number the server has stored it, on which connection that was read, and for how long
//! it lasts. A value is only changed or deleted under that number and on that connection: the numbers begin again when
//! the server is started anew, which ends all connections.
//!
//! ```text
//! acquire    asks                 there is               then
//!            acquire              nothing                acquire again
//!                                 mine, long enough      granted
//!                                 mine, too short        renew
//!                                 another                held
//!            renew                as above
//! renew      renew; a look where the lease may be longer already, or the number is not known
//!            (either)             mine, long enough      renewed
//!                                 mine, too short        renew
//!                                 nothing, another       gone
//! release    delete; a look where the number is not known
//!            delete               it is done             released
//!                                 it is not              look
//!            look                 mine                   delete
//!                                 nothing                expired; unknown where it was asked before
//!                                 another                stolen; unknown where it was asked before
//! undo       look                 mine                   delete
//!                                 nothing, another       undone
//!            delete               it is done             undone
//!                                 it is not              look
//! ```

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::super::clock::seconds;
use super::{ACQUIRE, DELETE, Found, LOOK, Left, RENEW, Value, number, on, refused, seen};
use crate::error::{Error, Kind, Result};
use crate::lease::ReleaseOutcome;
use crate::protocol::{
    Arg, AttemptId, Grant, Input, Intent, Op, Protocol, Push, Reply, Request, Requests, Step, Term, Terms, Traits,
    Verdict,
};
use crate::replies::{nonsense, operation};
use crate::token::Tokens;

/// A lock that changes under each of so many looks in a row is left alone for a while; also ends a hostile dialogue.
const MAX_ROUNDS: u8 = 16;

/// The machine of one contender for the lock under one key.
#[derive(Clone, Debug, Hash)]
pub struct AddLock {
    key: Arc<str>,
    /// What the attempt served at present has stored.
    mine: Option<Mine>,
    /// Its conversations.
    acquire: Option<Acquire>,
    renewal: Option<Renewal>,
    release: Option<Giving>,
    undo: Option<Giving>,
    /// The attempt for which a release was begun last; a second one cannot tell who deleted it.
    released: Option<AttemptId>,
}

/// The value of an attempt, as it was seen last.
#[derive(Clone, Debug, Hash)]
struct Mine {
    attempt: AttemptId,
    token: u64,
    cas: u64,
    connection: i64,
    /// The longest ttl that was asked for it: the lease may last for as long.
    asked: Duration,
}

#[derive(Clone, Debug, Hash)]
struct Acquire {
    terms: Terms,
    rounds: u8,
}

#[derive(Clone, Debug, Hash)]
struct Renewal {
    terms: Terms,
    ttl: Duration,
    rounds: u8,
}

/// A release or an undo.
#[derive(Clone, Debug, Hash)]
struct Giving {
    attempt: AttemptId,
    deletes: bool,
    /// It was begun before, and may have been done.
    again: bool,
    rounds: u8,
}

impl AddLock {
    /// A contender for the lock kept under `key`.
    pub fn new(key: Arc<str>) -> Self {
        AddLock { key, mine: None, acquire: None, renewal: None, release: None, undo: None, released: None }
    }

    fn begin(&mut self, intent: Intent) -> Result<Step> {
        Ok(match intent {
            Intent::Acquire { prev: Some(_), .. } | Intent::Undo { prev: Some(_), .. } => {
                let message = "the layout add cannot yield, yet it was asked to";
                return Err(Error::new(Kind::Internal, operation(intent.op()), message));
            }
            Intent::Acquire { terms, .. } => {
                self.mine.take_if(|mine| mine.attempt != terms.attempt);
                let request = self.acquiring(&terms);
                self.acquire = Some(Acquire { terms, rounds: 0 });
                ask(request)
            }
            Intent::Renew { terms, ttl } => {
                let request = match self.of(terms.attempt) {
                    Some(mine) if mine.asked <= ttl => self.renewing(mine, &terms, ttl),
                    _ => self.looking(),
                };
                self.renewal = Some(Renewal { terms, ttl, rounds: 0 });
                ask(request)
            }
            Intent::Release { terms, .. } => {
                let again = self.released.replace(terms.attempt) == Some(terms.attempt);
                let known = self.of(terms.attempt).map(|mine| self.deleting(mine.cas, mine.connection));
                let (attempt, deletes) = (terms.attempt, known.is_some());
                self.release = Some(Giving { attempt, deletes, again, rounds: 0 });
                ask(known.unwrap_or_else(|| self.looking()))
            }
            Intent::Undo { terms, .. } => {
                self.mine.take_if(|mine| mine.attempt == terms.attempt);
                self.undo = Some(Giving { attempt: terms.attempt, deletes: false, again: false, rounds: 0 });
                ask(self.looking())
            }
        })
    }

    fn of(&self, attempt: AttemptId) -> Option<&Mine> {
        self.mine.as_ref().filter(|mine| mine.attempt == attempt)
    }

    fn acquiring(&self, terms: &Terms) -> Request {
        let value = Value { attempt: terms.attempt, token: 0, card: &terms.card }.written();
        on(&ACQUIRE, &self.key, [Arg::Text(value), Arg::Int(seconds(terms.ttl)), Arg::NotAfter])
    }

    fn renewing(&self, mine: &Mine, terms: &Terms, ttl: Duration) -> Request {
        let value = Value { attempt: mine.attempt, token: mine.token, card: &terms.card }.written();
        let (cas, connection) = (number(mine.cas), Arg::Int(mine.connection));
        on(&RENEW, &self.key, [cas, connection, Arg::Text(value), Arg::Int(seconds(ttl)), Arg::NotAfter])
    }

    fn looking(&self) -> Request {
        on(&LOOK, &self.key, [])
    }

    fn deleting(&self, cas: u64, connection: i64) -> Request {
        on(&DELETE, &self.key, [number(cas), Arg::Int(connection)])
    }

    /// Remembers what was seen of the value of `attempt`; `None` where it is not that.
    fn learn(&mut self, attempt: AttemptId, found: Option<Found<'_>>, asked: Duration) -> Option<&Mine> {
        let found = found?;
        let value = found.value().filter(|value| value.attempt == attempt)?;
        let (token, before) = (found.token(&value), self.of(attempt).map_or(Duration::ZERO, |mine| mine.asked));
        let Found { cas, connection, .. } = found;
        self.mine = Some(Mine { attempt, token, cas, connection, asked: before.max(asked) });
        self.mine.as_ref()
    }

    fn acquired(&mut self, reply: &Reply) -> Result<Step> {
        let (done, found) = seen("acquire", reply)?;
        let Some(mut acquire) = self.acquire.take() else { return Ok(Step::Ignore) };
        let (attempt, ttl) = (acquire.terms.attempt, acquire.terms.ttl);
        acquire.rounds += 1;
        let next = match (self.learn(attempt, found, ttl), found) {
            (Some(mine), Some(found)) if is_enough(found.left, ttl, done) => {
                let tokens = Tokens::one(mine.token).ok_or_else(|| nonsense("acquire", std::slice::from_ref(reply)))?;
                return Ok(Step::Done(Verdict::Granted(Grant {
                    tokens: Some(tokens),
                    term: Term::FromRequest,
                    prev: None,
                })));
            }
            (Some(mine), _) => {
                let mine = mine.clone();
                self.renewing(&mine, &acquire.terms, ttl)
            }
            (None, Some(found)) => return Ok(held(found.left)),
            (None, None) => self.acquiring(&acquire.terms),
        };
        if acquire.rounds >= MAX_ROUNDS {
            return Err(restless("acquire"));
        }
        self.acquire = Some(acquire);
        Ok(ask(next))
    }

    fn renewed(&mut self, reply: &Reply) -> Result<Step> {
        let (done, found) = seen("renew", reply)?;
        let Some(mut renewal) = self.renewal.take() else { return Ok(Step::Ignore) };
        renewal.rounds += 1;
        let ttl = renewal.ttl;
        let (Some(mine), Some(found)) = (self.learn(renewal.terms.attempt, found, ttl), found) else {
            return Ok(Step::Done(Verdict::Gone(ReleaseOutcome::Expired)));
        };
        if is_enough(found.left, ttl, done) {
            return Ok(Step::Done(Verdict::Renewed));
        }
        if renewal.rounds >= MAX_ROUNDS {
            return Err(restless("renew"));
        }
        let mine = mine.clone();
        let next = self.renewing(&mine, &renewal.terms, ttl);
        self.renewal = Some(renewal);
        Ok(ask(next))
    }

    /// The next step of a release or an undo.
    fn given(&mut self, op: Op, giving: Option<Giving>, reply: &Reply) -> Result<Step> {
        let Some(giving) = giving else { return Ok(Step::Ignore) };
        if giving.rounds >= MAX_ROUNDS {
            return Err(restless(operation(op)));
        }
        let giving = Giving { rounds: giving.rounds + 1, ..giving };
        let (deletes, request) = if giving.deletes {
            match reply {
                Reply::Int(1) => return Ok(Step::Done(gave(op, ReleaseOutcome::Released))),
                Reply::Int(0 | -1) => (false, self.looking()),
                Reply::Error { code, message } => return Err(refused(operation(op), code, message)),
                _ => return Err(nonsense(operation(op), std::slice::from_ref(reply))),
            }
        } else {
            let (_, found) = seen(operation(op), reply)?;
            match (found, found.and_then(|found| found.value())) {
                (Some(found), Some(value)) if value.attempt == giving.attempt => {
                    (true, self.deleting(found.cas, found.connection))
                }
                // Whoever holds it now may have taken it after it was given back.
                _ if giving.again => return Ok(Step::Done(gave(op, ReleaseOutcome::Unknown))),
                (Some(_), value) => {
                    let card = value.map_or("", |value| value.card).to_owned();
                    return Ok(Step::Done(gave(op, ReleaseOutcome::StolenBy(card))));
                }
                (None, _) => return Ok(Step::Done(gave(op, ReleaseOutcome::Expired))),
            }
        };
        let slot = if op == Op::Undo { &mut self.undo } else { &mut self.release };
        *slot = Some(Giving { deletes, ..giving });
        Ok(ask(request))
    }

    fn reply(&mut self, op: Op, replies: &[Reply]) -> Result<Step> {
        let reply = replies.first().unwrap_or(&Reply::Nil);
        match op {
            Op::Acquire => self.acquired(reply),
            Op::Renew => self.renewed(reply),
            Op::Release => {
                let release = self.release.take();
                self.given(op, release, reply)
            }
            Op::Undo => {
                let undo = self.undo.take();
                self.given(op, undo, reply)
            }
        }
    }
}

fn ask(request: Request) -> Step {
    Step::Ask(Requests::from_iter([request]))
}

/// Whether what lies there for so long yet lasts for `ttl` from the sending of the request: the second that its server
/// counts from may be nearly over.
fn is_enough(left: Left, ttl: Duration, done: bool) -> bool {
    match left {
        Left::Seconds(left) => i64::try_from(left).is_ok_and(|left| left > seconds(ttl)),
        Left::Endless => true,
        Left::Untold => done,
    }
}

fn held(left: Left) -> Step {
    let remaining = match left {
        Left::Seconds(left) => Duration::from_secs(left.max(1)),
        Left::Endless | Left::Untold => Duration::MAX,
    };
    Step::Done(Verdict::Held { remaining, at: None, prev: None })
}

fn gave(op: Op, outcome: ReleaseOutcome) -> Verdict {
    if op == Op::Undo { Verdict::Undone } else { Verdict::Released(outcome) }
}

/// What lies there changes faster than it is asked for, or the server loses what it stores.
fn restless(operation: &'static str) -> Error {
    let message = "what lies under this name changes or is gone each time; see whether the server's memory is full, and who \
                   else writes there";
    Error::new(Kind::Unavailable, operation, message)
}

impl Protocol for AddLock {
    fn step(&mut self, input: Input<'_>) -> Step {
        let step = match input {
            Input::Begin(intent) => self.begin(intent),
            Input::Reply(op, replies) => self.reply(op, replies),
            Input::Event(_) => Ok(Step::Ignore),
        };
        step.unwrap_or_else(|error| Step::Done(Verdict::Failed(error)))
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}
