//! The layout `files` and its machine.
//!
//! ```text
//! acquire  owner ttl card     ->  first token | [microseconds that somebody else's lease lasts yet]
//! renew    owner ttl          ->  1 | 0, not held any more
//! release  owner              ->  1 | 0, not held any more | the card of whoever holds it now
//! pass     from to ttl card   ->  first token | 0, not held by `from`
//! undo     owner owner        ->  nil
//! inspect                     ->  nil | [owner, card, remaining, held for, first token]
//! break    token              ->  1 | 0, not held under it
//! list                        ->  [name, ...]
//! ```

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lockwright::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use lockwright::lease::{Card, Holder, Inspection, ReleaseOutcome};
use lockwright::protocol::{
    Arg, Call, Grant, Input, Inquiry, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests, Step, Term, Terms,
    Traits, Verdict,
};
use lockwright::token::Tokens;
use lockwright::{Error, Kind, Result};

use crate::folder::BLOCK;

const fn call(name: &'static str) -> Call {
    Call { name, body: &[], batch: false }
}

static ACQUIRE: Call = call("acquire");
/// Very many locks are renewed together.
static RENEW: Call = Call { batch: true, ..call("renew") };
static RELEASE: Call = call("release");
static PASS: Call = call("pass");
static UNDO: Call = call("undo");
static INSPECT: Call = call("inspect");
static BREAK: Call = call("break");
static LIST: Call = call("list");

/// The layout.
#[derive(Debug)]
pub(crate) struct Files {
    /// Put before every name.
    pub(crate) prefix: String,
}

impl Layout for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "dir",
            layout: "files",
            exclusive_until: ExclusiveUntil::Deadline,
            token: TokenRises::WithStoreData,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: &[
                "The folder must be on a file system of this host: over a network, `flock` may exclude nobody.",
                "Whoever removes a file of the folder, or the folder, frees locks that are held.",
                "A process that is stopped in the middle of a write keeps all others out until it goes on or ends.",
                "A power failure may take the last fencing tokens back; locks do not outlast it.",
            ],
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        Ok(format!("{}{name}", self.prefix).into())
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(Lock { key })
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        let nothing = Inspection::of_nothing(self.name(), name);
        Inquiry::of(Request::new(&INSPECT, key, []), |reply| match reply {
            Reply::Nil => Ok(nothing),
            Reply::List(list) => match list.as_slice() {
                [Reply::Text(owner), Reply::Text(card), Reply::Int(remaining), Reply::Int(held), Reply::Int(first)] => {
                    let first_token = u64::try_from(*first).unwrap_or(0);
                    let holder = Holder {
                        owner: owner.chars().take(8).collect(),
                        card: Card::decode(card),
                        held_for: Some(micros(*held)),
                        remaining: micros(*remaining),
                        first_token,
                        last_token: first_token + BLOCK - 1,
                    };
                    Ok(Inspection { holder: Some(holder), ..nothing.of_lock() })
                }
                _ => Err(refused("inspect", reply)),
            },
            _ => Err(refused("inspect", reply)),
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let token = Arg::Int(i64::try_from(token).unwrap_or(i64::MAX));
        Inquiry::of(Request::new(&BREAK, key, [token]), |reply| match reply {
            Reply::Int(broken) => Ok(*broken == 1),
            other => Err(refused("break", other)),
        })
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let prefix = self.prefix.clone();
        let name = move |reply: &Reply| match reply {
            Reply::Text(key) => key.strip_prefix(&prefix).map(str::to_owned),
            _ => None,
        };
        Inquiry::of(Request::new(&LIST, "".into(), []), move |reply| match reply {
            Reply::List(names) => Ok(names.iter().filter_map(&name).collect()),
            other => Err(refused("list", other)),
        })
    }
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The error for what is no answer to what was asked.
fn refused(operation: &'static str, reply: &Reply) -> Error {
    match reply {
        Reply::Error { code, .. } if code == "FOREIGN" => {
            let message = "another name has the file that this lock would have; choose another name";
            Error::new(Kind::ForeignLayout, operation, message)
        }
        _ => Error::new(Kind::Protocol, operation, "the folder's answer makes no sense; please report this"),
    }
}

/// One contender for one lock. All it has to know is in what it is told each time.
#[derive(Clone, Debug, Hash)]
struct Lock {
    key: Arc<str>,
}

impl Lock {
    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }

    fn ask(&self, intent: Intent) -> Request {
        match intent {
            Intent::Acquire { terms, .. } => {
                self.request(&ACQUIRE, [owner(&terms), span(terms.ttl), terms.card.clone().into()])
            }
            Intent::Renew { terms, ttl } => self.request(&RENEW, [owner(&terms), span(ttl)]),
            Intent::Release { terms, .. } => self.request(&RELEASE, [owner(&terms)]),
            Intent::Undo { terms, prev } => {
                let other = prev.map_or_else(|| owner(&terms), |prev| owner(&prev.terms));
                self.request(&UNDO, [owner(&terms), other])
            }
        }
    }
}

/// An attempt is an owner that nobody else ever is.
fn owner(terms: &Terms) -> Arg {
    Arg::Text(terms.attempt.to_string().into())
}

fn span(ttl: Duration) -> Arg {
    Arg::Int(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}

fn answered(op: Op, reply: &Reply) -> Verdict {
    match (op, reply) {
        (Op::Acquire, Reply::Int(0)) => Verdict::Gone(ReleaseOutcome::Expired),
        (Op::Acquire, Reply::Int(first)) => {
            let first = u64::try_from(*first).unwrap_or(0);
            let tokens = Tokens::new(first, first + BLOCK - 1);
            Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: None })
        }
        (Op::Acquire, Reply::List(list)) => match list.as_slice() {
            [Reply::Int(remaining)] => Verdict::Held { remaining: micros(*remaining), at: None, prev: None },
            _ => Verdict::Failed(refused("acquire", reply)),
        },
        (Op::Renew, Reply::Int(1)) => Verdict::Renewed,
        (Op::Renew, Reply::Int(0)) => Verdict::Gone(ReleaseOutcome::Expired),
        (Op::Release, Reply::Int(0)) => Verdict::Released(ReleaseOutcome::Expired),
        (Op::Release, Reply::Int(_)) => Verdict::Released(ReleaseOutcome::Released),
        (Op::Release, Reply::Text(card)) => Verdict::Released(ReleaseOutcome::StolenBy(card.clone())),
        (Op::Undo, Reply::Nil) => Verdict::Undone,
        (op, reply) => Verdict::Failed(refused(operation(op), reply)),
    }
}

fn operation(op: Op) -> &'static str {
    match op {
        Op::Acquire => "acquire",
        Op::Renew => "renew",
        Op::Release => "release",
        Op::Undo => "cancel",
    }
}

impl Protocol for Lock {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => Step::Ask(Requests::from_iter([self.ask(intent)])),
            Input::Reply(op, replies) => Step::Done(answered(op, replies.first().unwrap_or(&Reply::Nil))),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn pass(&self, from: &Terms, to: &Terms) -> Option<Requests> {
        let args = [owner(from), owner(to), span(to.ttl), to.card.clone().into()];
        Some(Requests::from_iter([self.request(&PASS, args)]))
    }

    fn traits(&self) -> Traits {
        Traits { block: BLOCK, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}
