//! The protocol of one lock layout: what to say to the store, and what its answers mean.
//!
//! A [`Protocol`] is pure. It is told what is wanted (an [`Intent`]) and what came back (replies and pushed events),
//! and it says what to send next, what it waits for, or how it ended. It knows no clock, no randomness, no socket and
//! no task: the [`Session`](crate::session::Session) reasons about time, the driver moves the bytes.
//!
//! ```text
//!              Begin(intent)            Ask(requests)
//!   Session  ----------------> Protocol ---------------> Session -> driver -> store
//!            <---------------- (a file  <--------------- replies
//!      Done(verdict) / Wait     per layout)  Reply / Event
//! ```
//!
//! One `Protocol` value serves one attempt after another of the same contender. Acquire, renew, release and undo are
//! four conversations ([`Op`]); at most one of each runs at a time, and a renewal may run beside a release.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use smallvec::SmallVec;

use crate::error::{Error, Kind};
use crate::gate::{Answer, CountOperation, Gate, LatchPlan};
use crate::guarantee::Guarantees;
use crate::hex::Hex;
use crate::lease::{Inspection, ReleaseOutcome};
use crate::options::AcquireOptions;
use crate::pages::Pages;
use crate::rank::Rank;
use crate::share::Share;
use crate::time::StoreTime;
use crate::token::Tokens;

/// One acquisition's identity: owner and incarnation at once, 128 bits of randomness minted before anything is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u128);

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Hex::of(self.0))
    }
}

impl AttemptId {
    /// Its last 8 of 32 hex digits, for whoever may hear what is not meant for them: enough for its client to tell its
    /// attempts apart.
    pub fn tail(self) -> u32 {
        self.0 as u32
    }

    /// Its first 8 of 32 hex digits, for logs: an attempt id is the credential that releases the lock, and a part of it
    /// is enough to tell two apart.
    pub fn short(self) -> impl fmt::Display + Copy {
        #[derive(Clone, Copy)]
        struct Short(AttemptId);
        impl fmt::Display for Short {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:08x}", self.0.0 >> 96)
            }
        }
        Short(self)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt:{}..", self.short())
    }
}

/// The address under which a client receives what its store pushes; also tells one client's waiters from another's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InboxId(pub u64);

impl InboxId {
    /// Where nobody listens.
    pub const NONE: InboxId = InboxId(0);
}

impl fmt::Display for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What one attempt asks for; constant from its first request to its last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The lock's name as the user gave it.
    pub name: Arc<str>,
    /// Who asks.
    pub attempt: AttemptId,
    /// Where pushes for this attempt go.
    pub inbox: InboxId,
    /// How long a grant answered to a request lasts at the store.
    pub ttl: Duration,
    /// How long a grant pushed by hand-off lasts until its first renewal: `min(ttl, 1 s)`.
    pub claim: Duration,
    /// The holder card others read with `inspect`; empty where the layout has no place for it.
    pub card: Arc<str>,
    /// Whether it is to be served in the order of the store's queue, where a layout serves others without one.
    pub fair: bool,
    /// How urgent its place in the store's queue is.
    pub rank: Rank,
}

impl Terms {
    /// Those of a secret, which holds the lock `name` for at most `ttl` until somebody resumes it; `card` is its
    /// maker's. It listens nowhere and never waits.
    pub fn of_secret(name: Arc<str>, secret: AttemptId, ttl: Duration, card: Arc<str>) -> Self {
        let (inbox, claim) = (InboxId::NONE, Duration::ZERO);
        Terms { name, attempt: secret, inbox, ttl, claim, card, fair: false, rank: Rank::LOWEST }
    }
}

/// The four conversations of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Become the holder, or take a place in the queue.
    Acquire,
    /// Make the lease last longer.
    Renew,
    /// Give the lock back, handing it to the next in the queue.
    Release,
    /// Take back whatever an acquire whose outcome is unknown or unwanted may have done.
    Undo,
}

/// What is wanted of the store.
#[derive(Clone, Debug)]
pub enum Intent {
    /// Acquire under `terms`. With `wait` the attempt may take a place in the store's queue; without, it only tries.
    /// With `prev`, the request first releases that earlier attempt (a *yield*: one request instead of two).
    Acquire { terms: Terms, wait: bool, prev: Option<Previous> },
    /// Extend the held lease to at least `ttl` from now.
    Renew { terms: Terms, ttl: Duration },
    /// Release; `used` is the highest token of the block that was really used, 0 where there are none.
    Release { terms: Terms, used: u64 },
    /// Leave the queue and release, for every attempt that may have left something behind.
    Undo { terms: Terms, prev: Option<Previous> },
}

impl Intent {
    /// The terms it is wanted on.
    pub fn terms(&self) -> &Terms {
        let (Intent::Acquire { terms, .. }
        | Intent::Renew { terms, .. }
        | Intent::Release { terms, .. }
        | Intent::Undo { terms, .. }) = self;
        terms
    }

    /// The conversation this intent begins.
    pub fn op(&self) -> Op {
        match self {
            Intent::Acquire { .. } => Op::Acquire,
            Intent::Renew { .. } => Op::Renew,
            Intent::Release { .. } => Op::Release,
            Intent::Undo { .. } => Op::Undo,
        }
    }
}

/// What the holder of a part of a shared record wants of the store: another part, and the lease renewed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The terms under which it was acquired.
    pub terms: Terms,
    /// The token of the part it has.
    pub token: u64,
    /// Extend the lease to at least this from now.
    pub ttl: Duration,
    /// How many units it wants to have; see [`crate::shared_cell`].
    pub units: u32,
}

/// What may be asked of a gate beside waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Change the count, as this attempt, of which copies may come for so long.
    Change {
        /// What tells it from every other one.
        attempt: AttemptId,
        /// For how long a copy may come.
        copies: Duration,
        /// What to do.
        operation: CountOperation,
        /// The latch, if there is none.
        plan: LatchPlan,
    },
    /// Look, and change nothing.
    Look,
}

/// The attempt that a yield gives back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Previous {
    /// The terms under which it was acquired.
    pub terms: Terms,
    /// The highest token of its block that was used, 0 where there are none.
    pub used: u64,
}

/// What a protocol is told. Handed on once and never stored, so its size costs nothing.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Input<'a> {
    /// Begin (or begin again, under the same attempt) a conversation.
    Begin(Intent),
    /// The replies to everything the last [`Step::Ask`] of this conversation asked, in order.
    Reply(Op, &'a [Reply]),
    /// The store pushed something that may concern this attempt; the answer belongs to [`Op::Acquire`].
    Event(&'a StoreEvent),
}

/// What a protocol says.
#[derive(Debug)]
pub enum Step {
    /// Send these, all in one write, and come back with [`Input::Reply`].
    Ask(Requests),
    /// The attempt has a place in the queue: wait for a push, or for [`Wait::remaining`], then begin again.
    Wait(Wait),
    /// The conversation is over.
    Done(Verdict),
    /// Nothing to do: the input concerned somebody else, or is noted until the answer that is still due.
    Ignore,
}

/// The requests of one write.
pub type Requests = SmallVec<[Request; 1]>;

/// What the store said when it put an attempt into its queue, or left it there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// The store's clock at that moment, where it has one: the anchor from which a later pushed grant is dated.
    pub at: Option<StoreTime>,
    /// How long the present holder's lease still lasts at the store.
    pub remaining: Duration,
    /// Waiters ahead of this one.
    pub position: u32,
    /// What became of the attempt that was given back in the same request.
    pub prev: Option<ReleaseOutcome>,
}

/// How a conversation ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The lock is ours.
    Granted(Grant),
    /// Somebody else holds it (answer to an acquire that does not wait).
    Held {
        /// How long their lease still lasts at the store; zero when the store does not say.
        remaining: Duration,
        /// The store's clock, where it has one.
        at: Option<StoreTime>,
        /// What became of the attempt that was given back in the same request.
        prev: Option<ReleaseOutcome>,
    },
    /// What was pushed cannot be true, or would be dangerous if it were: only the store's own answer is to be believed.
    Implausible,
    /// It cannot be had of so many nodes as it takes, though they answer: some may not grant anything yet. For as long
    /// as it is waited for that is no silence.
    NotYet(Error),
    /// This attempt can have it no more, for that reason, and another one can.
    Spent(Error),
    /// The request arrived after its `not_after` and did nothing.
    Late {
        /// The store's clock, by which the client's idea of it is corrected.
        at: StoreTime,
    },
    /// The lease lasts at least as long as was asked, counted from the request's sending.
    Renewed,
    /// The same, and somebody asked the holder to give the lock back.
    Wanted,
    /// The same as `Renewed`, and the [`Change`] asked for is made, under this token; or it is refused, and all is as
    /// it was.
    Changed(Option<u64>),
    /// The lease is not ours any more.
    Gone(ReleaseOutcome),
    /// The answer to a release.
    Released(ReleaseOutcome),
    /// Nothing of the named attempts is left at the store.
    Undone,
    /// The store refuses. Where the error is [`retryable`](Error::retryable) the outcome is unknown, and the
    /// conversation may be begun again after a pause; otherwise asking again will not help. An acquire that failed
    /// still has to be undone.
    Failed(Error),
}

impl Verdict {
    /// What became of the attempt that was given back in the same request, where the answer says so.
    pub fn prev(&self) -> Option<ReleaseOutcome> {
        match self {
            Verdict::Granted(Grant { prev, .. }) | Verdict::Held { prev, .. } => prev.clone(),
            _ => None,
        }
    }
}

/// A lock given to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Its fencing tokens: a block, or one where the layout has no blocks; `None` where it has no tokens.
    pub tokens: Option<Tokens>,
    /// From when the lease counts.
    pub term: Term,
    /// What became of the attempt that was given back in the same request.
    pub prev: Option<ReleaseOutcome>,
}

/// From when, and for how long, a granted lease counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// The full ttl, counted from the sending of the request that was answered. Where the answer only put the attempt
    /// into the queue and an event then made it the holder, it counts from there all the same: it may be old, or even
    /// past.
    FromRequest,
    /// What was granted stays so: the answer is as good as new whenever it comes.
    ForGood,
    /// Only the claim, counted from this point of the store's clock: the grant was pushed and has no sending time.
    Pushed(StoreTime),
}

/// Requests of one batch: what a store does at once without keeping others waiting for more than milliseconds.
pub const BATCH: usize = 512;

/// How many of `count` requests go in the next batch: an even share, so that none is sent for a few that are left over.
/// That is half as many again as [`BATCH`] at most.
pub fn share_of_batch(count: usize) -> usize {
    let batches = (count + BATCH / 2) / BATCH;
    count.div_ceil(batches.max(1))
}

/// A text in pieces, of which many texts have the same: a program has each once.
pub type Body = &'static [&'static str];

/// A store procedure a layout may call: a Lua script, an SQL statement, a node operation. Identity is the address'
/// name.
#[derive(Debug)]
pub struct Call {
    /// Short name for traces and logs, such as `acquire`.
    pub name: &'static str,
    /// What the store executes; empty where the name says it all.
    pub body: Body,
    /// Whether requests of this call, for very many locks, are handed to the store together, which makes as few writes
    /// of them as it can.
    pub batch: bool,
}

/// One argument of a request. Its `Debug` shows no text, which may be an owner.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A number, sent in decimal.
    Int(i64),
    /// Text, sent byte for byte.
    Text(Arc<str>),
    /// Another key it works on, by which it could be routed as well.
    Key(Arc<str>),
    /// Nothing, sent as an empty text.
    Nothing,
    /// The store's time after which the request must do nothing; the driver fills it in at the moment of sending.
    NotAfter,
    /// Which run of the store answers on the connection it is sent on; nothing where that cannot be told.
    Run,
    /// The node that it is for, of a store that has several; the last argument, which is not sent.
    Node(Node),
}

/// One of the nodes on which a store keeps each lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);

impl fmt::Debug for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Int(number) => write!(f, "Int({number})"),
            Arg::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Arg::Key(key) => write!(f, "Key({key:?})"),
            Arg::Nothing => f.write_str("Nothing"),
            Arg::NotAfter => f.write_str("NotAfter"),
            Arg::Run => f.write_str("Run"),
            Arg::Node(Node(number)) => write!(f, "Node({number})"),
        }
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Arg::Text(text.into())
    }
}

impl From<Arc<str>> for Arg {
    fn from(text: Arc<str>) -> Self {
        Arg::Text(text)
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Arg::Int(value)
    }
}

/// For how many arguments a request has room: most have no more.
const ARGS: usize = 8;

/// One request to the store. Its `Debug` shows no owner.
#[derive(Clone)]
pub struct Request {
    /// What to execute.
    pub call: &'static Call,
    /// The key it works on (stores that shard route by it).
    pub key: Arc<str>,
    /// Its arguments. They lie apart: a request is handed on a dozen times before it is sent.
    pub args: Vec<Arg>,
}

impl Request {
    /// A request of `call` on `key`.
    pub fn new<const N: usize>(call: &'static Call, key: Arc<str>, args: [Arg; N]) -> Self {
        let mut all = Vec::with_capacity(N.max(ARGS));
        all.extend(args);
        Request { call, key, args: all }
    }

    /// The same for `node` alone. All requests of a write go out at once, each to its node.
    #[must_use]
    pub fn at(mut self, node: Node) -> Self {
        self.args.push(Arg::Node(node));
        self
    }

    /// The node that it is for, if it names one.
    pub fn node(&self) -> Option<Node> {
        match self.args.last() {
            Some(Arg::Node(node)) => Some(*node),
            _ => None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("call", &self.call.name)
            .field("key", &self.key)
            .field("args", &self.args)
            .finish()
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.call, other.call) && self.key == other.key && self.args == other.args
    }
}

impl Eq for Request {}

impl std::hash::Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.name.hash(state);
        self.key.hash(state);
        self.args.hash(state);
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.call.name, self.key)?;
        for arg in &self.args {
            match arg {
                Arg::Int(n) => write!(f, " {n}")?,
                Arg::Nothing => write!(f, " -")?,
                Arg::Text(t) if t.is_empty() => write!(f, " -")?,
                Arg::Text(t) | Arg::Key(t) => write!(f, " {t}")?,
                Arg::NotAfter => write!(f, " <not-after>")?,
                Arg::Run => write!(f, " <run>")?,
                Arg::Node(Node(number)) => write!(f, " @{number}")?,
            }
        }
        Ok(())
    }
}

/// What a store answered, in the shape common to all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Nothing there.
    Nil,
    /// A number.
    Int(i64),
    /// Text; bytes that are not UTF-8 are replaced, since no layout of ours writes any.
    Text(String),
    /// Several values.
    List(Vec<Reply>),
    /// The answer that others had, too, who asked for the same at the same time.
    Shared(Arc<Reply>),
    /// The store refused: its error code and its words.
    Error { code: String, message: String },
    /// The node that was asked did not answer, though another one did: whether it did as it was told is not known.
    Silent,
    /// The node that was asked was not reached, though another one was: it did nothing, and never will.
    Unsent,
}

/// What a store pushes to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreEvent {
    /// `attempt` was made the holder by somebody's release.
    Granted { attempt: AttemptId, first: u64, last: u64, at: StoreTime },
    /// An operator broke the lock that `attempt` held. Like all that is pushed it proves nothing: the store says.
    Broken { attempt: AttemptId },
    /// An operator broke what is kept at this path, which its protocol knows to be its own.
    BrokenAt { path: Arc<str> },
    /// Whoever held the lock for long gave it to the one before an attempt, for a claim: the next look is due when that
    /// is over. Only the [tail](AttemptId::tail) of the attempt is told, since others may hear what is pushed, and its
    /// turn is still to come.
    Next { tail: u32 },
    /// `attempt` may have been made the holder, by a server whose word alone is not enough: it asks.
    Turn { attempt: AttemptId },
    /// A claim was over before it was renewed, so all of its client's places in that queue are gone.
    Dropped,
    /// Something that a protocol watches does not exist any more (node deleted, key gone).
    Gone { path: Arc<str> },
    /// Something that a protocol watches may have changed; how is not said, so it proves nothing and asks for a look.
    Changed { path: Arc<str> },
}

/// What tells of a lock at its store: a channel that messages are published on, or a path that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Channel<'a> {
    /// Its name, in the store's own words.
    pub name: &'a Arc<str>,
    /// It is of one attempt: no other will ever want it.
    pub own: bool,
    /// It is only wanted if it is listened to already, so that listening from the start costs nothing.
    pub overheard: bool,
}

/// What a layout can do; the Session and the queue adapt to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Traits {
    /// Tokens a grant reserves for hand-offs inside one process; 1 where each holder must be a fresh acquisition.
    pub block: u64,
    /// Whether an acquire may give back an earlier attempt in the same request.
    pub yields: bool,
    /// How waiters are told when it is their turn.
    pub push: Push,
    /// What is held lasts as long as the client's session at the store, which the store keeps alive for all locks: none
    /// is renewed, and its end is the end of all. Until when it lives is told by `Sink::session`.
    pub bound: bool,
}

/// How waiters are told when it is their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Push {
    /// They are not: they ask again by a timer.
    None,
    /// By a message to their client's inbox, which must be open before they queue.
    Inbox,
    /// By a watch that the protocol sets itself.
    Watch,
    /// By a message to their client's inbox, open or not: each has a place that stands for the ttl, which asking again
    /// renews. A grant cannot be given back, so an undo is answered [`Verdict::Undone`], after which nothing of the
    /// attempt can be granted, or [`Verdict::Granted`].
    Place,
    /// By a watch that the protocol sets itself; each has a place, which ends with its client's session. What a grant
    /// and an undo are is as for [`Push::Place`].
    WatchedPlace,
    /// By a message that the store sends to whoever [listens](Protocol::channel) for it, which says only that asking
    /// may help.
    Hint,
    /// The same, but not of everybody who gives the lock back: they ask again by a timer as well.
    HintOfSome,
}

impl Push {
    /// Whether a grant cannot be given back, so that whoever gives up has to be told whether it came first.
    pub const fn is_final(self) -> bool {
        matches!(self, Push::Place | Push::WatchedPlace)
    }

    /// Whether whoever waits listens on a channel of the lock.
    pub const fn is_hint(self) -> bool {
        matches!(self, Push::Hint | Push::HintOfSome)
    }
}

/// What several locks are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All of them, or none.
    All,
    /// One of them, the first that is free.
    Any,
}

/// A conversation with a store that belongs to no attempt: a look at what is kept, a lock that is broken, a list.
///
/// Most often it is one request and its reply. A layout that keeps a lock under several keys, or on several nodes, asks
/// on for as long as it needs to. Whoever has one holds it by [`conclude`](Self::conclude), or by hand where it awaits
/// the replies.
#[must_use = "it asks nothing by itself"]
pub enum Inquiry<'a, T> {
    /// Send these, all in one write, and hand on their replies.
    Ask(Requests, Next<'a, T>),
    /// It is over.
    Done(crate::Result<T>),
}

/// How a conversation goes on after the replies to everything that it asked last, in order.
pub type Next<'a, T> = Box<dyn FnOnce(&[Reply]) -> Inquiry<'a, T> + Send + 'a>;

/// A part of a long answer, and where the next one begins.
pub type Page<T> = (Vec<T>, Option<String>);

impl<'a, T> Inquiry<'a, T> {
    /// Asks `requests`, and then what `next` says.
    pub fn ask(
        requests: impl IntoIterator<Item = Request>,
        next: impl FnOnce(&[Reply]) -> Inquiry<'a, T> + Send + 'a,
    ) -> Self {
        Inquiry::Ask(requests.into_iter().collect(), Box::new(next))
    }

    /// Asks `request`, to which the reply is all that `read` needs.
    pub fn of(request: Request, read: impl FnOnce(&Reply) -> crate::Result<T> + Send + 'a) -> Self {
        Inquiry::ask([request], move |replies| Inquiry::Done(read(replies.first().unwrap_or(&Reply::Nil))))
    }

    /// What it asks now; nothing once it is over.
    pub fn asks(&self) -> &[Request] {
        match self {
            Inquiry::Ask(requests, _) => requests,
            Inquiry::Done(_) => &[],
        }
    }

    /// Where what lies there is foreign to it, has the `others` one after the other until one knows it; those that
    /// would only ask what was asked before are left out. Foreign to all of them, it ends with its own complaint.
    pub fn or(self, others: impl IntoIterator<Item = Self>) -> Self
    where
        T: Send + 'a,
    {
        let mut conversations = vec![self];
        for other in others {
            if !conversations.iter().any(|earlier| earlier.asks() == other.asks()) {
                conversations.push(other);
            }
        }
        let first = conversations.remove(0);
        first.or_by(conversations.into_iter(), None)
    }

    /// The same for the conversations that are left, once one is under way and the first may have complained.
    fn or_by(self, mut left: vec::IntoIter<Self>, complaint: Option<Error>) -> Self
    where
        T: Send + 'a,
    {
        match self {
            Inquiry::Ask(requests, next) => {
                Inquiry::Ask(requests, Box::new(move |replies| next(replies).or_by(left, complaint)))
            }
            Inquiry::Done(Err(error)) if error.kind() == Kind::ForeignLayout => match left.next() {
                Some(other) => other.or_by(left, complaint.or(Some(error))),
                None => Inquiry::Done(Err(complaint.unwrap_or(error))),
            },
            over => over,
        }
    }

    /// Has everything answered by `answer` until it is over.
    ///
    /// # Errors
    /// What it ends with, or the first that `answer` fails with.
    pub fn conclude(self, mut answer: impl FnMut(&Requests) -> crate::Result<Vec<Reply>>) -> crate::Result<T> {
        let mut inquiry = self;
        loop {
            match inquiry {
                Inquiry::Ask(requests, next) => inquiry = next(&answer(&requests)?),
                Inquiry::Done(result) => return result,
            }
        }
    }

    /// What it ends with where all that it asks is answered by this reply.
    ///
    /// # Errors
    /// As [`conclude`](Self::conclude).
    pub fn answered(self, reply: &Reply) -> crate::Result<T> {
        self.conclude(|requests| Ok(vec![reply.clone(); requests.len()]))
    }
}

impl<'a, T: Send + 'a> Inquiry<'a, Vec<T>> {
    /// Asks for page after page: that of `cursor`, which is empty for the first, by `request`; `read` takes its reply.
    /// Pages without an end are `protocol`.
    pub fn pages(
        request: impl Fn(&str) -> Request + Send + 'a,
        read: impl Fn(&Reply) -> crate::Result<Page<T>> + Send + 'a,
    ) -> Self {
        Self::page(String::new(), Pages::default(), Vec::new(), request, read)
    }

    fn page(
        cursor: String,
        mut pages: Pages,
        mut found: Vec<T>,
        request: impl Fn(&str) -> Request + Send + 'a,
        read: impl Fn(&Reply) -> crate::Result<Page<T>> + Send + 'a,
    ) -> Self {
        Inquiry::ask([request(&cursor)], move |replies| {
            let (more, next) = match read(replies.first().unwrap_or(&Reply::Nil)) {
                Ok(page) => page,
                Err(error) => return Inquiry::Done(Err(error)),
            };
            found.extend(more);
            let Some(next) = next else { return Inquiry::Done(Ok(found)) };
            match pages.turn("list", &next) {
                Ok(()) => Self::page(next, pages, found, request, read),
                Err(error) => Inquiry::Done(Err(error)),
            }
        })
    }
}

impl<T> fmt::Debug for Inquiry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inquiry::Ask(requests, _) => f.debug_tuple("Ask").field(requests).finish(),
            Inquiry::Done(_) => f.write_str("Done"),
        }
    }
}

/// One lock layout of one store: makes the machines, and knows what lies under a name.
pub trait Layout: Send + Sync + fmt::Debug {
    /// Its name, as in the option `layout=`.
    fn name(&self) -> &'static str;

    /// Its name among the formats of a layout that has several, as in the option `format=`.
    fn format(&self) -> Option<&'static str> {
        None
    }

    /// What it promises.
    fn guarantees(&self) -> Guarantees;

    /// The key that the lock `name` is kept under.
    ///
    /// # Errors
    /// `invalid_config` where the layout cannot write that name.
    fn key(&self, name: &str) -> crate::Result<Arc<str>>;

    /// Fails for options of a lock that this layout cannot honour, beyond what it does not [promise](Self::guarantees).
    ///
    /// # Errors
    /// `invalid_config`, and what it can.
    fn check(&self, options: &AcquireOptions) -> crate::Result<()> {
        let _ = options;
        Ok(())
    }

    /// A machine for the lock kept under `key`.
    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol>;

    /// The layout of shared records beside this one, for those who want `share` of one; `None` where there is none.
    fn shared(&self, share: Share) -> Option<Arc<dyn Layout>> {
        let _ = share;
        None
    }

    /// How many permits there are, where an acquisition was answered with `replies` that say so: when they are not as
    /// many as it said.
    fn other_permits(&self, replies: &[Reply]) -> Option<u32> {
        let _ = replies;
        None
    }

    /// What of a shared record it is for; `None` for a lock, which has one holder.
    fn share(&self) -> Option<Share> {
        None
    }

    /// The layout of what is waited for beside this one, for those to whom it is `gate`; `None` where there is none.
    fn gate(&self, gate: Gate) -> Option<Arc<dyn Layout>> {
        let _ = gate;
        None
    }

    /// Whether several may hold at once, so that each acquisition is a contender of its own.
    fn has_many_holders(&self) -> bool {
        self.share().is_some()
    }

    /// Whether it is somebody's while it is acquired, as a gate is not.
    fn is_held(&self) -> bool {
        self.share().is_some() || !self.has_many_holders()
    }

    /// Whether those who wait are served by [`Rank`].
    fn serves_by_rank(&self) -> bool {
        false
    }

    /// Whether a held lock can go from one attempt to another.
    fn passes(&self, key: Arc<str>) -> bool {
        let anybody = Terms::of_secret(key.clone(), AttemptId(1), Duration::from_secs(1), "".into());
        self.protocol(key).pass(&anybody, &anybody).is_some()
    }

    /// Asks `question` of the gate under `key`; `None` where it cannot be asked. Ends with `unavailable` where a change
    /// may have been made or not.
    fn question(&self, key: Arc<str>, question: Question) -> Option<Inquiry<'_, Answer>> {
        let _ = (key, question);
        None
    }

    /// Gives the semaphore under `key` another size; `None` for what has none.
    fn resize(&self, key: Arc<str>, permits: u32) -> Option<Inquiry<'_, ()>> {
        let _ = (key, permits);
        None
    }

    /// Whether it has a procedure that tries several locks at once.
    fn tries_together(&self) -> bool {
        false
    }

    /// The one request that stands for `requests`, each of which tries a lock of this layout without waiting, where
    /// that is possible. It is answered with a list of the answers to each.
    fn together(&self, policy: Policy, requests: &[&Request]) -> Option<Request> {
        let _ = (policy, requests);
        None
    }

    /// Looks at the lock `name`, which is kept under `key`. Ends with `foreign_layout` where something else lies there,
    /// with `protocol` where a reply makes no sense.
    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection>;

    /// The same for somebody who asks what lies there: other primitives of ours are told of too, as far as one look
    /// tells.
    fn identify<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        self.inspect(name, key)
    }

    /// This layout for a holder who must be known by one token to everybody who looks, such as the leader of an
    /// election; `None` where there is no other way to keep it.
    fn agreed(&self) -> Option<Arc<dyn Layout>> {
        None
    }

    /// Whether it is one that [`agreed`](Self::agreed) gave.
    fn is_agreed(&self) -> bool {
        false
    }

    /// Whether a holder can be asked to give its lock back: [`Protocol::heed`] and [`ask_back`](Self::ask_back).
    fn is_revocable(&self) -> bool {
        false
    }

    /// Asks whoever holds the lock under `key` with `token` to give it back; whether somebody does. Whether it heeds
    /// that nobody can tell.
    fn ask_back(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let _ = (key, token);
        Inquiry::Done(Err(Error::unsupported("request_release", irrevocable(self.name()))))
    }

    /// Takes the lock under `key` from whoever holds it with `token`; whether somebody did. A layout without tokens
    /// cannot: what was seen of a holder would not tell it from the next one.
    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let _ = (key, token);
        let message =
            format!("layout {} has no tokens, by which a holder could be named; stop its process", self.name());
        Inquiry::Done(Err(Error::unsupported("break", message)))
    }

    /// The names of the locks there are. A store that cannot tell says why, as `unsupported`. It may be kept beside the
    /// layout: a long list is not begun anew at every page.
    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let message = format!("layout {} cannot tell which locks there are; ask for each by its name", self.name());
        Inquiry::Done(Err(Error::unsupported("list", message)))
    }
}

/// Why a lock of this layout cannot be asked back.
pub(crate) fn irrevocable(layout: &str) -> String {
    format!(
        "layout {layout} has no message by which a holder is asked to give back; leave revocable out, or choose a store \
         and layout that have one (docs/choosing.md)"
    )
}

/// One lock layout of one store, as a pure machine.
pub trait Protocol: Send + fmt::Debug {
    /// Takes one input and says what to do. The answer depends only on the inputs so far: it never changes by itself,
    /// so there is nothing to poll.
    fn step(&mut self, input: Input<'_>) -> Step;

    /// Begins a renewal that changes how much is held, in the place of a plain one; its answer belongs to
    /// [`Op::Renew`].
    fn change(&mut self, change: Change) -> Step {
        let _ = change;
        let message = "a lock that one has alone, or that lies on several nodes, cannot be changed while it is held";
        Step::Done(Verdict::Failed(Error::unsupported("change", message)))
    }

    /// From now on a renewal of what is held also looks whether its holder was asked to give it back, and is told when
    /// that may be; see [`Layout::is_revocable`].
    fn heed(&mut self) {}

    /// The requests that give the lock from one attempt to another and make the lease last `to.ttl`; `None` where the
    /// layout cannot. They are answered as an acquire is to [`Op::Acquire`] (with [`Verdict::Gone`] where `from` does
    /// not hold the lock), and as a release is to [`Op::Release`].
    fn pass(&self, from: &Terms, to: &Terms) -> Option<Requests> {
        let _ = (from, to);
        None
    }

    /// The request that has the holder's tokens begin no lower than at `token`, so that those of later holders are
    /// higher; `None` where the layout cannot. It is answered with 1 if it is the holder, else with 0.
    fn raise(&self, terms: &Terms, token: u64) -> Option<Request> {
        let _ = (terms, token);
        None
    }

    /// Whether what it holds is kept at this path, in the store's own words.
    fn keeps(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// What this layout can do; never changes.
    fn traits(&self) -> Traits;

    /// What whoever asks on these terms listens to while it waits, a channel or a path in the store's own words, to ask
    /// again after each message. `None` unless the layout's waiters are told by [hints](Push::is_hint).
    fn channel(&self, terms: &Terms) -> Option<Arc<str>> {
        let _ = terms;
        None
    }

    /// A copy in the same state, for those who explore what could happen next.
    fn duplicate(&self) -> Box<dyn Protocol>;

    /// Feeds everything the next answers depend on to `state`, so that equal machines can be recognised.
    fn fingerprint(&self, state: &mut dyn Hasher);
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOOK: Call = Call { name: "look", body: &[], batch: false };

    /// Asks for what lies at `key`, to which a reply of `known` is an answer and every other one foreign.
    fn look(key: &str, known: i64) -> Inquiry<'static, i64> {
        Inquiry::of(Request::new(&LOOK, key.into(), []), move |reply| match reply {
            Reply::Int(seen) if *seen == known => Ok(known),
            seen => Err(Error::new(Kind::ForeignLayout, "look", format!("{known} does not know {seen:?}"))),
        })
    }

    #[test]
    fn pages_without_an_end_are_no_answer() {
        let ask = |cursor: &str| Request::new(&LOOK, "k".into(), [cursor.into()]);
        let to = |cursor: &'static str| move |_: &Reply| Ok((vec![1], Some(cursor.to_owned())));
        for cursor in ["", "7"] {
            let error = Inquiry::pages(ask, to(cursor)).answered(&Reply::Nil).unwrap_err();
            assert_eq!((error.kind(), error.operation()), (Kind::Protocol, "list"));
        }
        let mut asked = 0;
        let all = Inquiry::pages(ask, |reply| match reply {
            Reply::Int(page) if *page < 1_000 => Ok((vec![*page], Some(page.to_string()))),
            _ => Ok((vec![], None)),
        });
        let all = all.conclude(|_| {
            asked += 1;
            Ok(vec![Reply::Int(asked)])
        });
        assert_eq!(all.unwrap().len(), 999);
    }

    #[test]
    fn whoever_knows_what_lies_there_answers_and_nothing_is_asked_twice() {
        let all = || look("a", 1).or([look("a", 2), look("b", 3), look("c", 4)]);
        let mut asked = Vec::new();
        let seen = all().conclude(|requests| {
            asked.push(requests[0].key.to_string());
            Ok(vec![Reply::Int(3)])
        });
        assert_eq!((seen.unwrap(), asked), (3, vec!["a".to_string(), "b".to_string()]));
        let error = all().answered(&Reply::Int(5)).unwrap_err();
        assert!(error.to_string().contains("1 does not know"), "{error}");
        let failed = all().conclude(|_| Err(Error::new(Kind::Unavailable, "look", "no answer")));
        assert_eq!(failed.unwrap_err().kind(), Kind::Unavailable);
    }
}
