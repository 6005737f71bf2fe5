//! Tables in which other libraries keep their locks: one machine, one wire form.
//!
//! A lock is a row: its key, whose it is, until when, and since when. Each statement does what it does at one moment of
//! the database's clock, and tells how the row is afterwards:
//!
//! ```text
//!   acquire  owner ttl-us not-after  ->  [now did owner left-us since]   did: 1 taken, also when asked again; 0 held by
//!                                                                        another; 2 late; 3 taken for too short a time
//!   renew    owner ttl-us            ->  [now did]                       did: 1; 0 not ours any more
//!   release  owner                   ->  [now did owner left-us since]   the same
//!   inspect                          ->  [now 0 owner left-us since]
//!   break    since                   ->  [now did]
//!   list     after                   ->  [now key now key ..]
//! ```
//!
//! An undo is a release. All values are texts, as every database can say them; times are microseconds, those of the
//! clock since 1970, and the most that a number holds is for ever. Where there is no row, nothing stands for what it
//! would say.
//!
//! **Tokens.** Since when a lock is held is written at every grant of ours: the database's clock, but later than what
//! the row said before. So it is the fencing token, for which there would be no other place. Other libraries write it
//! too, but do not know it for one: their holders have no token.
//! Where whoever gives back deletes the row, nothing is left of what it said: there each acquisition of ours reads the
//! clock while no other of ours can take this lock, in PostgreSQL behind an advisory lock, in MySQL once more when it
//! has the row.
//!
//! **Owners.** Each acquisition of ours is an owner of its own, so that what comes late touches no later hold.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
use crate::guarantee::{ExclusiveUntil, Guarantees, TokenRises};
use crate::lease::{Card, Holder, Inspection, ReleaseOutcome};
use crate::protocol::{
    Arg, Call, Grant, Input, Inquiry, Intent, Layout, Op, Page, Protocol, Push, Reply, Request, Requests, Step, Term,
    Terms, Traits, Verdict,
};
use crate::replies::{answered, duration, nonsense, operation, shown};
use crate::time::StoreTime;
use crate::token::Tokens;

/// Keys in one page of a list, as its statements have it.
const PAGE: usize = 500;
/// What a column of names takes, in characters.
const LONGEST_NAME: usize = 64;
/// What a column may round away of a time that is written into it.
const ROUNDED: Duration = Duration::from_millis(1);

/// What is asked of one table, in the language of one database.
#[derive(Debug)]
pub struct Statements {
    /// Become the holder.
    pub acquire: Call,
    /// Extend the lease.
    pub renew: Call,
    /// Give back.
    pub release: Call,
    /// Look at it.
    pub inspect: Call,
    /// Take it from its holder.
    pub break_hold: Call,
    /// One page of the keys that are held; none where keys are no names.
    pub list: Option<Call>,
}

/// That of a name in the file of that name.
macro_rules! statement {
    ($folder:literal, $name:literal, $batch:literal) => {
        $crate::protocol::Call {
            name: $name,
            body: &[include_str!(concat!($folder, "/", $name, ".sql"))],
            batch: $batch,
        }
    };
}

/// Those in the files of a folder that lies beside the source in which this stands.
macro_rules! statements {
    ($folder:literal) => {
        $crate::tables::joined::statements!($folder, list: None)
    };
    ($folder:literal, list) => {
        $crate::tables::joined::statements!($folder, list: Some($crate::tables::joined::statement!($folder, "list", false)))
    };
    ($folder:literal, list: $list:expr) => {
        $crate::tables::joined::Statements {
            acquire: $crate::tables::joined::statement!($folder, "acquire", false),
            renew: $crate::tables::joined::statement!($folder, "renew", true),
            release: $crate::tables::joined::statement!($folder, "release", true),
            inspect: $crate::tables::joined::statement!($folder, "inspect", false),
            break_hold: $crate::tables::joined::statement!($folder, "break", false),
            list: $list,
        }
    };
}

pub(crate) use {statement, statements};

/// What has to be known of more than one of these tables.
pub(super) const BY_DATABASE_CLOCK: &str = "Leases of ours end by the database's clock; tokens are that clock.";
pub(super) const DIGESTS: &str = "There are no names in the table, only digests of them, and no holder cards: list is refused, and inspect tells less.";
pub(super) const PROMOTED: &str =
    "A replica that is promoted without the last commits of its primary may grant a lock that was granted there.";
pub(crate) const POLLED: &str = "Waiters poll, in no order: with several processes, one of them may wait long.";

/// The key of a table that has the name itself, in a column of 64 characters.
pub(crate) fn short_key(table: &str, name: &str) -> Result<String> {
    let length = name.chars().count();
    if length > LONGEST_NAME {
        let message =
            format!("a name in {table} has {LONGEST_NAME} characters at most, and this name and prefix have {length}");
        return Err(Error::invalid("lock", message));
    }
    Ok(name.to_owned())
}

/// As what a holder of ours is shown, of whom the table has no more.
pub(super) fn unnamed() -> Card {
    Card { language: "lockwright".into(), ..Card::default() }
}

/// In what the table of one library differs from those of others.
pub struct Library {
    /// The layout, as in the option `layout=`.
    pub layout: &'static str,
    /// What it is called.
    pub product: &'static str,
    /// Its table.
    pub table: &'static str,
    /// What a program has to be allowed to do there.
    pub rights: &'static str,
    /// What cards say of a holder that uses it.
    pub language: &'static str,
    /// Until when a holder is the only one.
    pub exclusive_until: ExclusiveUntil,
    /// What a person should know, one sentence each.
    pub notes: &'static [&'static str],
    /// The key under which it keeps the lock of that name.
    pub key: fn(&str) -> Result<String>,
    /// Whose the row is that an attempt on these terms takes.
    pub owner: fn(&Terms) -> String,
    /// What such an owner says of itself; none where the other library wrote it.
    pub card: fn(&str) -> Option<Card>,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layout)
    }
}

impl Library {
    /// The error for what the database refuses of a statement on the table.
    fn refused(&self, operation: &'static str, code: &str, message: &str) -> Error {
        let Library { product, table, rights, .. } = self;
        let (kind, what) = match code {
            "42P01" | "1146" => (
                Kind::InvalidConfig,
                format!(
                    "the database has no table {table}; make it as {product} documents it, or correct the database's name in the \
                     address"
                ),
            ),
            "42501" | "1142" | "1143" => {
                (Kind::Auth, format!("this user may not use the table; GRANT {rights} ON {table} TO it"))
            }
            "1267" | "1366" => (
                Kind::InvalidConfig,
                format!(
                    "the character set of the table {table} has not all letters of this name; choose another name, or convert the \
                     table to utf8mb4"
                ),
            ),
            _ => (Kind::ForeignLayout, format!("the table {table} is not as {product} documents it; see the cause")),
        };
        Error::new(kind, operation, what).caused_by(format!("{code}: {message}"))
    }

    fn too_coarse(&self, operation: &'static str) -> Error {
        let message = format!(
            "the columns of the table {} keep no milliseconds, so that a lease ends early; make them keep at least three \
             digits of a second",
            self.table
        );
        Error::new(Kind::ForeignLayout, operation, message)
    }
}

/// The layout, in one database.
#[derive(Clone, Debug)]
pub struct JoinedLayout {
    /// The database.
    pub store: &'static str,
    /// Whose locks are joined.
    pub library: &'static Library,
    /// What is said to the database.
    pub statements: &'static Statements,
    /// The connection's prefix, put before every name.
    pub prefix: String,
}

impl Layout for JoinedLayout {
    fn name(&self) -> &'static str {
        self.library.layout
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: self.store,
            layout: self.library.layout,
            exclusive_until: self.library.exclusive_until,
            token: TokenRises::WithStoreClock,
            fair: false,
            reentrant: true,
            shared: true,
            push: false,
            survives_disconnect: true,
            incarnation: true,
            notes: self.library.notes,
        }
    }

    fn key(&self, name: &str) -> Result<Arc<str>> {
        (self.library.key)(&format!("{}{name}", self.prefix)).map(Arc::from)
    }

    fn protocol(&self, key: Arc<str>) -> Box<dyn Protocol> {
        Box::new(JoinedLock { library: self.library, statements: self.statements, key })
    }

    fn inspect<'a>(&'a self, name: &'a str, key: Arc<str>) -> Inquiry<'a, Inspection> {
        Inquiry::of(Request::new(&self.statements.inspect, key, []), move |reply| {
            let nothing = Inspection::of_nothing(self.name(), name);
            let seen = self.read("inspect", reply)?;
            Ok(match seen.holder(self.library) {
                Some(holder) => Inspection { holder: Some(holder), ..nothing.of_lock() },
                None => nothing,
            })
        })
    }

    fn break_hold(&self, key: Arc<str>, token: u64) -> Inquiry<'_, bool> {
        let since = Arg::Int(i64::try_from(token).unwrap_or(i64::MAX));
        Inquiry::of(Request::new(&self.statements.break_hold, key, [since]), move |reply| {
            Ok(self.read("break", reply)?.did == DONE)
        })
    }

    fn list(&self) -> Inquiry<'static, Vec<String>> {
        let Some(list) = &self.statements.list else {
            let message = format!(
                "the table {} has no names, only digests of them; ask for each lock by its name",
                self.library.table
            );
            return Inquiry::Done(Err(Error::unsupported("list", message)));
        };
        let (this, prefix) = (self.clone(), Arc::<str>::from(&*self.prefix));
        let page = move |cursor: &str| Request::new(list, prefix.clone(), [cursor.into()]);
        Inquiry::pages(page, move |reply| this.listed(reply))
    }
}

impl JoinedLayout {
    fn read<'a>(&self, operation: &'static str, reply: &'a Reply) -> Result<Seen<'a>> {
        match reply {
            Reply::Error { code, message } => Err(self.library.refused(operation, code, message)),
            reply => Seen::read(reply).ok_or_else(|| nonsense(operation, std::slice::from_ref(reply))),
        }
    }

    fn listed(&self, reply: &Reply) -> Result<Page<String>> {
        let rows = match reply {
            Reply::List(rows) => rows,
            Reply::Error { code, message } => return Err(self.library.refused("list", code, message)),
            other => return Err(nonsense("list", std::slice::from_ref(other))),
        };
        let keys: Vec<&str> = rows.chunks(2).filter_map(|row| text(row.get(1)?)).collect();
        let next = keys.last().filter(|_| keys.len() >= PAGE).map(|&key| key.to_owned());
        Ok((keys.iter().filter_map(|key| key.strip_prefix(&*self.prefix)).map(str::to_owned).collect(), next))
    }
}

const ANOTHERS: i64 = 0;
const DONE: i64 = 1;
const LATE: i64 = 2;
const TOO_SHORT: i64 = 3;

/// What a statement tells.
struct Seen<'a> {
    now: StoreTime,
    did: i64,
    owner: &'a str,
    /// For how long the row is somebody's, zero where it is nobody's.
    left: Duration,
    since: i64,
}

impl<'a> Seen<'a> {
    fn read(reply: &'a Reply) -> Option<Self> {
        let Reply::List(values) = reply else { return None };
        let number = |at: usize| values.get(at).and_then(text).map_or(Some(0), |text| text.parse::<i64>().ok());
        let (now, did) = (text(values.first()?)?.parse().ok()?, text(values.get(1)?)?.parse().ok()?);
        let owner = values.get(2).and_then(text).unwrap_or_default();
        Some(Seen { now: StoreTime(now), did, owner, left: left(number(3)?), since: number(4)? })
    }

    fn holder(&self, library: &Library) -> Option<Holder> {
        if self.left.is_zero() {
            return None;
        }
        let ours = (library.card)(self.owner);
        let token = u64::try_from(self.since).ok().filter(|_| ours.is_some());
        Some(Holder {
            owner: shown(self.owner),
            held_for: token.map(|_| duration(self.now.0.saturating_sub(self.since))),
            card: ours.unwrap_or_else(|| Card { language: library.language.into(), ..Card::default() }),
            remaining: self.left,
            first_token: token.unwrap_or(0),
            last_token: token.unwrap_or(0),
        })
    }
}

/// Some libraries' holds have no end.
fn left(micros: i64) -> Duration {
    if micros == i64::MAX { Duration::MAX } else { duration(micros) }
}

/// The text that a value is.
pub(crate) fn text(value: &Reply) -> Option<&str> {
    match value {
        Reply::Text(text) => Some(text),
        _ => None,
    }
}

/// The machine of one contender for the lock under one key.
#[derive(Clone, Debug)]
pub struct JoinedLock {
    library: &'static Library,
    statements: &'static Statements,
    key: Arc<str>,
}

impl JoinedLock {
    fn begin(&self, intent: &Intent) -> Result<Request> {
        let owner = || Arg::Text((self.library.owner)(intent.terms()).into());
        Ok(match intent {
            Intent::Acquire { prev: Some(_), .. } | Intent::Undo { prev: Some(_), .. } => {
                let message = "a joined layout cannot yield, yet it was asked to";
                return Err(Error::new(Kind::Internal, operation(intent.op()), message));
            }
            Intent::Acquire { terms, .. } => {
                self.request(&self.statements.acquire, [owner(), lease(terms.ttl), Arg::NotAfter])
            }
            Intent::Renew { ttl, .. } => self.request(&self.statements.renew, [owner(), lease(*ttl)]),
            Intent::Release { .. } | Intent::Undo { .. } => self.request(&self.statements.release, [owner()]),
        })
    }

    fn request<const N: usize>(&self, call: &'static Call, args: [Arg; N]) -> Request {
        Request::new(call, self.key.clone(), args)
    }

    fn answer(&self, op: Op, reply: &Reply) -> Option<Verdict> {
        if let Reply::Error { code, message } = reply {
            return Some(Verdict::Failed(self.library.refused(operation(op), code, message)));
        }
        let seen = Seen::read(reply)?;
        Some(match (op, seen.did) {
            (Op::Acquire, DONE) => {
                let tokens = Some(Tokens::one(u64::try_from(seen.since).ok()?)?);
                Verdict::Granted(Grant { tokens, term: Term::FromRequest, prev: None })
            }
            (Op::Acquire, ANOTHERS) => Verdict::Held { remaining: seen.left, at: Some(seen.now), prev: None },
            (Op::Acquire, LATE) => Verdict::Late { at: seen.now },
            (Op::Acquire, TOO_SHORT) => Verdict::Failed(self.library.too_coarse(operation(op))),
            (Op::Renew, DONE) => Verdict::Renewed,
            (Op::Renew, ANOTHERS) => Verdict::Gone(ReleaseOutcome::Expired),
            (Op::Release, DONE) => Verdict::Released(ReleaseOutcome::Released),
            (Op::Release, ANOTHERS) if seen.left.is_zero() => Verdict::Released(ReleaseOutcome::Expired),
            (Op::Release, ANOTHERS) => {
                let thief = (self.library.card)(seen.owner).map(|card| card.encode()).unwrap_or_default();
                Verdict::Released(ReleaseOutcome::StolenBy(thief))
            }
            (Op::Undo, DONE | ANOTHERS) => Verdict::Undone,
            _ => return None,
        })
    }
}

/// For how long a row is to be somebody's: what may be rounded away is in it.
fn lease(ttl: Duration) -> Arg {
    Arg::Int(i64::try_from((ttl + ROUNDED).as_micros()).unwrap_or(i64::MAX))
}

impl Protocol for JoinedLock {
    fn step(&mut self, input: Input<'_>) -> Step {
        match input {
            Input::Begin(intent) => match self.begin(&intent) {
                Ok(request) => Step::Ask(Requests::from_iter([request])),
                Err(error) => Step::Done(Verdict::Failed(error)),
            },
            Input::Reply(op, replies) => answered(op, replies, |reply| self.answer(op, reply).map(Step::Done)),
            Input::Event(_) => Step::Ignore,
        }
    }

    fn traits(&self) -> Traits {
        Traits { block: 1, yields: false, push: Push::None, bound: false }
    }

    fn duplicate(&self) -> Box<dyn Protocol> {
        Box::new(self.clone())
    }

    fn fingerprint(&self, mut state: &mut dyn Hasher) {
        (self.library.layout, &self.key).hash(&mut state);
    }
}
