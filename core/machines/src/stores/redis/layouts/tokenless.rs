//! The layout `string` without fencing tokens: what its libraries send, and no record beside it.
//!
//! ```text
//!   first   set      owner ttl-ms             ->  OK | nil                     SET key owner NX PX ttl, the server's own
//!   later   acquire  owner ttl-ms not-after   ->  1                            granted, also when asked again
//!                                             |   [0, now, remaining-ms, owner] held
//!                                             |   [2, now]                     late
//! ```
//!
//! A lock that is free costs the server one plain command. It says nothing of whoever holds it, and it is executed
//! however late it comes. So an attempt asks by it once: told nil, or not answered, it goes on by the script, which
//! knows its own owner, says how long the lock is held, and does nothing after its `not-after`. See ADR 0143.
//!
//! A `SET` that is executed after everybody stopped waiting for it leaves a lock that nobody holds, until its ttl ends.
//! It never takes a lock from anybody, and nobody believes in it: a grant is an answer that came in time.
//!
//! All else is as [`joined`](super::joined) has it. Nobody's card is kept, no holder has a token to be broken by, and
//! nothing tells which locks there are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::joined::{JoinedLayout, JoinedLock, millis};
use super::recipe::Recipe;
use super::string;
use crate::error::{Error, Result};
use crate::guarantee::{Guarantees, TokenRises};
use crate::lease::Inspection;
use crate::protocol::{
    Arg, AttemptId, Call, Grant, Input, Inquiry, Intent, Layout, Op, Protocol, Reply, Request, Requests, Step, Term,
    Terms, Traits, Verdict,
};
use crate::replies::answered;
use crate::uri::{Uri, flag};

/// What is asked first: no script, but the server's command.
pub static SET: Call = Call { name: "set", body: &[], batch: false };

/// What is asked then.
pub static ACQUIRE: Call = Call {
    name: "acquire",
    body: script!("joined/foreign" "joined/beside" "string/read" "time" "string/acquire"),
    batch: false,
};

/// The owner and the ttl in milliseconds that `request` is to set, where it is such a command.
pub fn set(request: &Request) -> Option<(&str, i64)> {
    match request.args.as_slice() {
        [Arg::Text(owner), Arg::Int(ttl)] if std::ptr::eq(request.call, &raw const SET) => Some((owner, *ttl)),
        _ => None,
    }
}

/// The option of an address by which locks have no tokens.
const OPTION: &str = "tokens";

/// Takes the option out of an address; whether locks have tokens.
///
/// # Errors
/// `invalid_config` for what is neither yes nor no, `unsupported` where the address does not choose the layout that can
/// do without.
pub fn has_tokens(uri: &mut Uri) -> Result<bool> {
    let Some(text) = uri.take_rest(OPTION) else { return Ok(true) };
    let has_tokens = flag(OPTION, &text)?;
    if !has_tokens && uri.lock.layout.as_deref() != Some(string::FAMILY.name) {
        let message = format!(
            "{OPTION}=false goes with layout={} in the same address: every other layout keeps a fencing token with each grant; \
             leave {OPTION} out, or choose that layout and a format",
            string::FAMILY.name
        );
        return Err(Error::unsupported("connect", message));
    }
    Ok(has_tokens)
}

/// The layout.
#[derive(Clone, Debug)]
pub struct TokenlessLayout {
    /// The same with tokens.
    pub of: JoinedLayout<Recipe>,
}

/// Those there are in a store whose locks have no tokens, in each format, for names that get `prefix` put before them.
pub fn layouts(prefix: &str, in_one_slot: bool) -> Vec<Arc<dyn Layout>> {
    let of = |format| {
        let manner = Recipe { in_one_slot, ..string::FAMILY.layout(format, "").manner };
        TokenlessLayout { of: JoinedLayout { manner, prefix: prefix.into() } }
    };
    string::FORMATS.iter().map(|format| Arc::new(of(format)) as Arc<dyn Layout>).collect()
}

const NOTES: [&str; 9] = {
    let of = string::FAMILY.notes;
    // The one on tokens, which the others say of holders that use another library, is said of all here.
    [of[0], of[1], of[2], of[3], NO_TOKENS, LATE, of[5], of[6], of[7]]
};
const NO_TOKENS: &str = "No holder has a fencing token, nor a card that others read with `inspect`; none can be named to be broken, and nothing tells which locks there are.";
const LATE: &str = "A lock is taken by a plain `SET`: one that the server executes after nobody waits for its answer any more keeps the lock from everybody until its ttl ends.";

impl Layout for TokenlessLayout {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    fn format(&self) -> Option<&'static str> {
        self.of.format()
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { token: TokenRises::Never, notes: &NOTES, ..self.of.guarantees() }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        self.of.key(name)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(TokenlessLock::new(self.of.manner, key))
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.of.inspect(name, key)
    }
}

/// What is asked on behalf of the attempt that was served last.
#[derive(Clone, Copy, Debug)]
struct Asked {
    attempt: AttemptId,
    ttl: Duration,
    /// Whether the command is what has no answer yet.
    by_command: bool,
    /// Whether it is undone: whoever has the lock matters no more.
    undone: bool,
}

/// The machine.
#[derive(Clone)]
pub struct TokenlessLock {
    lock: JoinedLock<Recipe>,
    asked: Option<Asked>,
}

impl TokenlessLock {
    /// The machine for the lock kept under `key`.
    pub fn new(manner: Recipe, key: Arc<str>) -> Self {
        TokenlessLock { lock: JoinedLock::new(manner, key), asked: None }
    }

    fn acquire(&mut self, Terms { attempt, ttl, .. }: Terms) -> Step {
        let by_command = self.asked.is_none_or(|asked| asked.attempt != attempt);
        let asked = *self.asked.insert(Asked { attempt, ttl, by_command, undone: false });
        self.ask(asked)
    }

    fn ask(&mut self, Asked { attempt, ttl, by_command, .. }: Asked) -> Step {
        let (me, ttl) = (self.lock.owner(attempt), millis(ttl));
        Step::Ask(Requests::from_iter([match by_command {
            true => self.lock.request(&SET, [me, ttl]),
            false => self.lock.request(&ACQUIRE, [me, ttl, Arg::NotAfter]),
        }]))
    }

    fn acquired(&mut self, reply: &Reply) -> Option<Step> {
        let granted = || Step::Done(Verdict::Granted(Grant { tokens: None, term: Term::FromRequest, prev: None }));
        match self.asked.as_mut().filter(|asked| asked.by_command) {
            Some(asked) => match reply {
                Reply::Text(text) if text == "OK" => Some(granted()),
                Reply::Nil if asked.undone => {
                    Some(Step::Done(Verdict::Held { remaining: Duration::ZERO, at: None, prev: None }))
                }
                // It may be this attempt's own: then its first answer was lost.
                Reply::Nil => {
                    asked.by_command = false;
                    let asked = *asked;
                    Some(self.ask(asked))
                }
                Reply::Error { .. } => self.lock.answer(Op::Acquire, reply),
                _ => None,
            },
            None => match reply {
                Reply::Int(1) => Some(granted()),
                Reply::Int(_) => None,
                other => self.lock.answer(Op::Acquire, other),
            },
        }
    }
}

impl Protocol for TokenlessLock {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(Intent::Acquire { terms, prev: None, .. }) => self.acquire(terms),
            Input::Reply(Op::Acquire, replies) => answered(Op::Acquire, replies, |reply| self.acquired(reply)),
            Input::Begin(intent) => {
                if let (Intent::Undo { .. }, Some(asked)) = (&intent, &mut self.asked) {
                    asked.undone = true;
                }
                self.lock.step(Input::Begin(intent))
            }
            other => self.lock.step(other),
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, ..self.lock.traits() }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        self.lock.fingerprint(state);
        // Whether it is the attempt's that is served is known to whoever serves it.
        let asked = self.asked.map(|asked| (asked.by_command, asked.undone));
        asked.hash(&mut state);
    }
}

impl fmt::Debug for TokenlessLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenless{:?}", self.lock)
    }
}
