//! Locks that a database keeps for a connection, and frees with it: the layouts `advisory`, under a number or a name in
//! no table, and `for_update`, on a row whose transaction stays open.
//!
//! A database knows connections only, and lets each have again what it has: which attempt a lock is for, and that it is
//! for one, is kept beside the connection by the driver, which answers for it.
//!
//! ```text
//!   take   attempt ttl-us ->  since when it has it, also when asked again; 0 another has, or another of this client's
//!   holds  attempt ttl-us ->  1 it has it still; 0 not any more
//!   give   attempt        ->  1 it had it, and does not any more; 0 it had it not
//!   look                  ->  [connection who]   of whoever has it
//! ```
//!
//! Since when is what the database's clock said once it had the lock, in microseconds since 1970: the fencing token. An
//! undo is a `give`.
//!
//! **`advisory`**: all locks of a client are on one connection of its own, which is its [session](Traits::bound).
//! Requests of one client are done in the order in which they were made, so that nothing of an attempt comes behind its
//! undo.
//!
//! Where the database can tell somebody, whoever waits listens on a channel of the lock. To tell is a commit, which
//! waits for the disk, so a holder tells only where somebody listens; and since a crash or another library tells
//! nobody, whoever waits polls besides.
//!
//! **`for_update`**: each lock is a connection, which the database ends where it is silent for the ttl: a `holds` is a
//! word on it, and so a renewal.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection, ReleaseOutcome};
use crate::options::AcquireOptions;
use crate::protocol::{
    Arg, Body, Call, Grant, Input, Inquiry, Intent, Layout, Op, Protocol, Push, Reply, Request, Requests, Step, Term,
    Terms, Traits, Verdict,
};
use crate::replies::{answered, int, nonsense, operation, shown};
use crate::tables::joined::text;
use crate::token::Tokens;

/// What is asked, in the language of one database.
#[derive(Debug)]
pub struct Statements {
    /// Become the holder.
    pub take: Call,
    /// Say whether it is one still. The driver knows.
    pub holds: Call,
    /// Give back.
    pub give: Call,
    /// Look at it.
    pub look: Call,
}

impl Statements {
    /// Those on numbers or names, of which many travel together.
    pub const fn on_names(take: Body, give: Body, look: Body) -> Self {
        Statements {
            take: Call { name: "take", body: take, batch: true },
            holds: Call { name: "holds", body: &[], batch: true },
            give: Call { name: "give", body: give, batch: true },
            look: Call { name: "look", body: look, batch: false },
        }
    }

    /// Those on rows, each on a connection of its own.
    pub const fn on_rows(take: Body, give: Body, look: Body) -> Self {
        Statements {
            take: Call { name: "take row", body: take, batch: false },
            holds: Call { name: "holds row", body: &[], batch: true },
            give: Call { name: "give row", body: give, batch: false },
            look: Call { name: "look", body: look, batch: false },
        }
    }
}

/// What else is said on a connection that has a row, or is to have it.
#[derive(Debug)]
pub struct Around {
    /// Begins a transaction, before a row is taken; nothing where that does so itself.
    pub begin: Option<Call>,
    /// Tells those who wait for the row, before it is given back; nothing where nobody can be told.
    pub tell: Option<Tell>,
    /// Ends it with nothing taken.
    pub end: Call,
    /// Makes the row where there is none.
    pub make: Call,
    /// Says that its holder lives.
    pub holds: Call,
}

/// How those who wait are told by whoever gives back.
#[derive(Debug)]
pub struct Tell {
    /// What is said, of which the key is the channel.
    pub call: Call,
    /// The channel of the lock under a key.
    pub channel: fn(&str) -> String,
}

impl Tell {
    /// What is said before the lock under `key` is given back.
    pub fn of(&'static self, key: &str) -> Request {
        Request::new(&self.call, (self.channel)(key).into(), [])
    }
}

/// Of what a connection has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A number or a name, on the connection that is the client's session.
    Name,
    /// A row, on a connection for it alone.
    Row,
}

/// What a request wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// That an attempt be the holder.
    Take,
    /// To know whether it is.
    Holds,
    /// That it be not any more.
    Give,
}

impl Wanted {
    /// That of this request, and on which connection; none where any will do.
    pub fn of(request: &Request) -> Option<(Of, Self)> {
        Some(match request.call.name {
            "take" => (Of::Name, Wanted::Take),
            "holds" => (Of::Name, Wanted::Holds),
            "give" => (Of::Name, Wanted::Give),
            "take row" => (Of::Row, Wanted::Take),
            "holds row" => (Of::Row, Wanted::Holds),
            "give row" => (Of::Row, Wanted::Give),
            _ => return None,
        })
    }
}

/// The code by which a database that cannot say whether it is done is refused.
pub const UNSAID: &str = "UNSAID";
/// The same for a lock beyond those for which a client may have connections.
pub const TOO_MANY: &str = "TOOMANY";

/// In what one database differs from others.
#[derive(Debug)]
pub struct Dialect {
    /// The store.
    pub store: &'static str,
    /// The layout, as in the option `layout=`.
    pub layout: &'static str,
    /// Of what it is.
    pub of: Of,
    /// What is said to it.
    pub statements: Statements,
    /// What a person should know, one sentence each.
    pub notes: &'static [&'static str],
    /// The number, name or row under which it keeps the lock of that name.
    pub key: fn(&str) -> Result<String>,
    /// The channel on which those who wait for the lock under a key are told that it was given back; nothing where
    /// nobody can be told.
    pub channel: Option<fn(&str) -> String>,
}

/// What has to be known of more than one database.
pub(crate) const ON_ONE_CONNECTION: &str =
    "All locks of a client are on one connection of its own, and are lost with it.";
pub(crate) const FREED: &str = "A database that restarts, fails over or ends the connection frees its locks at once, a moment before their \
                                holders hear of it; a holder that it cannot reach hears of that within the ttl.";
pub(crate) const HINTED: &str = "Whoever waits is told when a client of this library gives back, and polls besides, since others tell nobody; in \
                                 no order: with several processes, one of them may wait long.";
pub(crate) const CLOCKED: &str =
    "Tokens are the database's clock, read once the lock is had; nobody but its holder knows them.";
pub(crate) const A_CONNECTION_EACH: &str =
    "Each lock that is held is a connection with an open transaction, of which a client has 16 at most.";
pub(crate) const ENDED: &str = "The database ends a transaction on which nothing is said for the ttl, and frees the row: a holder that it cannot reach hears of that before.";
pub(crate) const SKIPPED: &str =
    "Whoever waits passes over a row that is locked (SKIP LOCKED), and waits for no other's transaction.";

/// The layout, in one database.
#[derive(Clone, Debug)]
pub struct ConnectionLayout {
    /// The database.
    pub dialect: &'static Dialect,
    /// The connection's prefix, put before every name.
    pub prefix: String,
    /// How long a lock may last: where all are on one connection, as long as that does without a word.
    pub ttl: Duration,
}

impl Layout for ConnectionLayout {
    fn name(&self) -> &'static str {
        self.dialect.layout
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: self.dialect.store,
            layout: self.name(),
            exclusive_until: ExclusiveUntil::StoreFailover,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: false,
            incarnation: true,
            notes: self.dialect.notes,
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        (self.dialect.key)(&format!("{}{name}", self.prefix)).map(Arc::from)
    }

    fn check(&self, options: &AcquireOptions) -> Result<()> {
        if options.ttl <= self.ttl {
            return Ok(());
        }
        let (wanted, most) = (crate::span::written(options.ttl), crate::span::written(self.ttl));
        let message = format!(
            "an advisory lock lasts as long as its client's connection, of which the ttl is {most}; give a longer one in the \
             address, ?ttl={wanted}"
        );
        Err(Error::unsupported("lock", message))
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(ConnectionLock { dialect: self.dialect, key })
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        Inquiry::of(Request::new(&self.dialect.statements.look, key, []), move |reply| {
            let nothing = Inspection::of_nothing(self.name(), name);
            let seen = match reply {
                Reply::List(values) => values,
                Reply::Error { code, message } => return Err(refused("inspect", code, message)),
                other => return Err(nonsense("inspect", std::slice::from_ref(other))),
            };
            let Some(connection) = seen.first().and_then(text) else { return Ok(nothing) };
            let who = seen.get(1).and_then(text).unwrap_or_default();
            Ok(Inspection { holder: Some(holder(connection, who)), ..nothing.of_lock() })
        })
    }

    fn break_hold(&self, _: Arc<str>, _: u64) -> Inquiry<'_, bool> {
        let message = "the database does not know the tokens of what its connections have; inspect tells whose connection has it, \
                       which its operator can end";
        Inquiry::Done(Err(Error::unsupported("break", message)))
    }
}

/// Whoever has this connection, of which the database says so much.
fn holder(connection: &str, who: &str) -> Holder {
    Holder {
        owner: shown(connection),
        card: Card {
            language: "connection".into(),
            label: format!("{connection} {who}").trim().into(),
            ..Card::default()
        },
        held_for: None,
        remaining: Duration::MAX,
        first_token: 0,
        last_token: 0,
    }
}

/// The error for what the database refuses.
fn refused(operation: &'static str, code: &str, message: &str) -> Error {
    let (kind, what) = match code {
        UNSAID => (Kind::Unavailable, "the database cannot say whether it keeps the lock; see its log"),
        TOO_MANY => (
            Kind::Unavailable,
            "each lock of the layout for_update is a connection, of which this client has no more; give some back",
        ),
        "42P01" | "1146" => (
            Kind::InvalidConfig,
            "the database has no table resource_lock; make it as the page of this database says, or correct its name in the address",
        ),
        "42501" | "1142" | "1143" => (
            Kind::Auth,
            "this user may not take such locks; for for_update, GRANT SELECT, INSERT, UPDATE ON resource_lock TO it",
        ),
        _ => (Kind::ForeignLayout, "the database refused it; see the cause"),
    };
    Error::new(kind, operation, what).caused_by(format!("{code}: {message}"))
}

/// The machine of one contender for the lock under one key.
#[derive(Clone, Debug)]
struct ConnectionLock {
    dialect: &'static Dialect,
    key: Arc<str>,
}

impl ConnectionLock {
    fn begin(&self, intent: &Intent) -> Result<Request> {
        let Statements { take, holds, give, .. } = &self.dialect.statements;
        let attempt = Arg::Text(intent.terms().attempt.to_string().into());
        let lasting = |call, ttl: Duration| {
            let ttl = Arg::Int(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX));
            Request::new(call, self.key.clone(), [attempt.clone(), ttl])
        };
        Ok(match intent {
            Intent::Acquire { prev: Some(_), .. } | Intent::Undo { prev: Some(_), .. } => {
                let message = "what a connection has cannot be yielded, yet it was asked for";
                return Err(Error::new(Kind::Internal, operation(intent.op()), message));
            }
            Intent::Acquire { terms, .. } => lasting(take, terms.ttl),
            Intent::Renew { ttl, .. } => lasting(holds, *ttl),
            Intent::Release { .. } | Intent::Undo { .. } => Request::new(give, self.key.clone(), [attempt]),
        })
    }
}

fn verdict(op: Op, did: i64) -> Option<Verdict> {
    let outcome = if did > 0 { ReleaseOutcome::Released } else { ReleaseOutcome::Expired };
    Some(match (op, did) {
        (Op::Acquire, 0) => Verdict::Held { remaining: Duration::MAX, at: None, prev: None },
        (Op::Acquire, since) => {
            let tokens = Some(Tokens::one(u64::try_from(since).ok()?)?);
            Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: None })
        }
        (Op::Renew, 1) => Verdict::Renewed,
        (Op::Renew, 0) => Verdict::Gone(outcome),
        (Op::Release, 0 | 1) => Verdict::Released(outcome),
        (Op::Undo, 0 | 1) => Verdict::Undone,
        _ => return None,
    })
}

impl Protocol for ConnectionLock {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => match self.begin(&intent) {
                Ok(request) => Step::Ask(Requests::from_iter([request])),
                Err(error) => Step::Done(Verdict::Failed(error)),
            },
            Input::Reply(op, replies) => answered(op, replies, |reply| {
                if let Reply::Error { code, message } = reply {
                    return Some(Step::Done(Verdict::Failed(refused(operation(op), code, message))));
                }
                verdict(op, int(reply)?).map(Step::Done)
            }),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        let push = if self.dialect.channel.is_some() { Push::HintOfSome } else { Push::None };
        Traits { block: 1, yields: false, push, bound: self.dialect.of == Of::Name }
    }

    fn channel(&self, _: &Terms) -> Option<Arc<str>> {
        self.dialect.channel.map(|channel| channel(&self.key).into())
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (self.dialect.layout, &self.key).hash(&mut state);
    }
}
