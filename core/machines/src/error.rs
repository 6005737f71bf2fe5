//! What can go wrong, as one type with a stable code that is the same in every language.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::lease::LossReason;
use crate::name;

/// What went wrong. [`Kind::code`] is the stable string that every language shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The lock was not acquired within the time limit; somebody else holds it.
    Timeout,
    /// The guard or token named does not hold the lock (any more).
    NotOwned,
    /// The lease ended while it was held.
    Lost,
    /// The caller gave up waiting.
    Cancelled,
    /// The store did not answer within `store_timeout`.
    Unavailable,
    /// Too few nodes of a quorum granted.
    Quorum,
    /// The URI, an option or an argument is wrong; nothing was sent.
    InvalidConfig,
    /// The store or layout cannot do what was asked.
    Unsupported,
    /// The store holds something else under this lock's name.
    ForeignLayout,
    /// Waiting would never end.
    Deadlock,
    /// A guard made before a fork was used in the child.
    Forked,
    /// The client was closed.
    Closed,
    /// The store refused the credentials, or they lack a right.
    Auth,
    /// The other side does not speak the store's protocol.
    Protocol,
    /// A defect of this library.
    Internal,
}

impl Kind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Kind; 15] = [
        Kind::Timeout,
        Kind::NotOwned,
        Kind::Lost,
        Kind::Cancelled,
        Kind::Unavailable,
        Kind::Quorum,
        Kind::InvalidConfig,
        Kind::Unsupported,
        Kind::ForeignLayout,
        Kind::Deadlock,
        Kind::Forked,
        Kind::Closed,
        Kind::Auth,
        Kind::Protocol,
        Kind::Internal,
    ];

    /// The stable code, such as `not_owned`.
    pub const fn code(self) -> &'static str {
        match self {
            Kind::Timeout => "timeout",
            Kind::NotOwned => "not_owned",
            Kind::Lost => "lost",
            Kind::Cancelled => "cancelled",
            Kind::Unavailable => "unavailable",
            Kind::Quorum => "quorum",
            Kind::InvalidConfig => "invalid_config",
            Kind::Unsupported => "unsupported",
            Kind::ForeignLayout => "foreign_layout",
            Kind::Deadlock => "deadlock",
            Kind::Forked => "forked",
            Kind::Closed => "closed",
            Kind::Auth => "auth",
            Kind::Protocol => "protocol",
            Kind::Internal => "internal",
        }
    }

    /// What it means, as a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Kind::Timeout => {
                "Somebody else held the lock for the whole time limit, as the store said. The place in the queue is gone by then, unless the store takes more than \
                 0.1 s to say so."
            }
            Kind::NotOwned => "The lock is not held by this guard or with this token, or no longer.",
            Kind::Lost => "The lease ended while the lock was held.",
            Kind::Cancelled => "The caller gave up waiting.",
            Kind::Unavailable => {
                "The store did not answer, or could not serve, within the time limit or `store_timeout`, whichever is shorter; nothing is \
                 known of the lock."
            }
            Kind::Quorum => "Too few servers of a quorum granted the lock.",
            Kind::InvalidConfig => "The address, an option or an argument is wrong.",
            Kind::Unsupported => "The store or layout cannot do what was asked.",
            Kind::ForeignLayout => {
                "Something else lies under this lock's name: another kind of lock, or another program's data."
            }
            Kind::Deadlock => "Waiting would never end.",
            Kind::Forked => "A guard made before a fork was used in the child.",
            Kind::Closed => "The client was closed.",
            Kind::Auth => "The store refused the credentials, or they lack a right.",
            Kind::Protocol => "What answers at the address does not speak the store's protocol.",
            Kind::Internal => "A bug in this library, or the operating system refused.",
        }
    }

    /// Whether the same call may succeed later without anybody changing the program or its settings.
    pub const fn retryable(self) -> bool {
        matches!(self, Kind::Timeout | Kind::Lost | Kind::Unavailable | Kind::Quorum)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// An error of any operation: its kind, what was being done, on which lock and store, and what to do about it.
///
/// Never holds a password, a TLS key or an owner id: store addresses are redacted before they get here.
#[derive(Clone, thiserror::Error)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: Kind,
    operation: &'static str,
    store: Option<Arc<str>>,
    lock: Option<Arc<str>>,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    nobody_there: bool,
    not_yet: Option<Duration>,
}

impl Error {
    /// An error of `kind` met while doing `operation`. `message` says what happened and what to do about it.
    pub fn new(kind: Kind, operation: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = shortened(message.into());
        let (store, lock, source, nobody_there, not_yet) = (None, None, None, false, None);
        Error(Box::new(Inner { kind, operation, store, lock, message, source, nobody_there, not_yet }))
    }

    /// An [`Kind::InvalidConfig`] error; nothing was sent.
    pub fn invalid(operation: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::InvalidConfig, operation, message)
    }

    /// An [`Kind::Unsupported`] error.
    pub fn unsupported(operation: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Kind::Unsupported, operation, message)
    }

    /// The error of a wait that reached its limit of `waited`.
    pub fn timeout(waited: Duration) -> Self {
        timed_out(waited, None, None)
    }

    /// The same error, saying which store it concerns (an address without credentials).
    pub fn on_store(mut self, store: impl Into<Arc<str>>) -> Self {
        self.0.store.get_or_insert_with(|| store.into());
        self
    }

    /// The same error, saying which lock it concerns.
    pub fn on_lock(mut self, lock: impl Into<Arc<str>>) -> Self {
        self.0.lock.get_or_insert_with(|| lock.into());
        self
    }

    /// The same error with its cause.
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The stable code of the kind, such as `timeout`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Whether the same call may succeed later by itself.
    pub fn retryable(&self) -> bool {
        self.0.kind.retryable()
    }

    /// What was being done, such as `acquire`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The store it concerns, without credentials.
    pub fn store(&self) -> Option<&str> {
        self.0.store.as_deref()
    }

    /// The lock it concerns.
    pub fn lock(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// What happened and what to do about it.
    pub fn context(&self) -> &str {
        &self.0.message
    }
}

/// The error of a wait that reached its limit of `waited`, of what is held by `who` and was waited for behind at most
/// `ahead` others, if that is known.
pub fn timed_out(waited: Duration, who: Option<&str>, ahead: Option<u32>) -> Error {
    // What is left of a limit for several locks has parts of a millisecond, which tell nobody anything.
    let waited = if waited < Duration::from_millis(1) {
        waited
    } else {
        Duration::from_millis(waited.as_micros().div_ceil(1_000) as u64)
    };
    let place = ahead.map_or_else(String::new, |ahead| format!("; this call was {} in line", ordinal(ahead)));
    let message = match who {
        None if waited.is_zero() => Cow::Borrowed("somebody else holds it; wait with a time limit, or try again later"),
        None => {
            // Where no place is known the store may not even have answered.
            let by = match ahead {
                None => "others held it, or the store had not answered by then",
                Some(_) => "others hold it",
            };
            format!("not ours within {waited:?}: {by}{place}; raise the timeout, or `inspect` it").into()
        }
        Some(who) if waited.is_zero() => format!("held by {who}; wait with a time limit, or try again later").into(),
        Some(who) => {
            format!("not ours within {waited:?}: held by {who}{place}; raise the timeout, or see to the holder").into()
        }
    };
    Error::new(Kind::Timeout, "acquire", message)
}

/// How long the next of several locks may be waited for, of the `timeout` for all of them, of which so much is `left`.
///
/// # Errors
/// `timeout`: nothing would be left but to try it.
pub fn left_of(timeout: Option<Duration>, left: Option<Duration>) -> Result<Option<Duration>> {
    match (timeout, left) {
        (Some(limit), Some(Duration::ZERO)) if !limit.is_zero() => Err(Error::timeout(limit)),
        (_, left) => Ok(left),
    }
}

/// The error for a writer of whom the store did not say that it is a reader now: a reader's place is always there to be
/// had.
pub fn not_downgraded() -> Error {
    let message =
        "the store did not say that the writer is a reader now; see whether it is held, and downgrade it again";
    Error::new(Kind::Unavailable, "change", message)
}

/// The error for an operation to which the store said nothing within the time that it has for that.
pub fn silent_store(operation: &'static str) -> Error {
    Error::new(Kind::Unavailable, operation, "the store did not answer in time; see whether it runs and is reachable")
}

/// The error for what was asked of a hold that is lost for that reason, or else was released meanwhile.
pub fn no_longer_held(operation: &'static str, reason: Option<LossReason>) -> Error {
    let why = reason.map_or("it was released meanwhile", |reason| reason.sentence());
    Error::new(Kind::Lost, operation, format!("the lock is no longer held: {why}"))
}

/// The error for what is asked of a guard that is being exported.
pub fn being_exported(operation: &'static str) -> Error {
    let message = "this guard is being exported; wait for that, then ask again if it is still held";
    Error::new(Kind::Unavailable, operation, message)
}

/// The error for an export whose guard was released before anybody was told the secret.
pub fn recalled() -> Error {
    let message = "this guard was released while it was exported, so the lock is given back";
    Error::new(Kind::NotOwned, "export", message)
}

/// The error for one of several locks that was lost while the others were waited for.
pub fn lost_meanwhile() -> Error {
    let message = "it was lost while the locks after it were waited for; try again, or give it a longer ttl";
    Error::new(Kind::Lost, "acquire", message)
}

/// The same error, naming the locks that were wanted together where there are several: it concerns one of them.
pub fn of_several<'a>(mut error: Error, names: impl ExactSizeIterator<Item = &'a str>) -> Error {
    if names.len() > 1 {
        let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
        let message = format!("{}; wanted together are {}", error.0.message, names.join(", "));
        error.0.message = shortened(message.into());
    }
    error
}

/// The same error, saying that there is nobody at the address: asking again in a moment finds nobody either.
pub fn with_nobody_there(mut error: Error) -> Error {
    error.0.nobody_there = true;
    error
}

/// The same error, saying that the store answers, and that only so much time has to pass until it grants anything.
pub(crate) fn with_not_yet(mut error: Error, left: Duration) -> Error {
    error.0.not_yet = Some(left);
    error
}

/// How much time has to pass until the store, which answers, grants anything; nothing where that is not why it fails.
pub(crate) fn not_yet(error: &Error) -> Option<Duration> {
    error.0.not_yet
}

/// Whether there is nobody at the address.
pub fn is_nobody_there(error: &Error) -> bool {
    error.0.nobody_there
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, operation, store, lock, message, source, .. } = &*self.0;
        let mut line = OneLine(f);
        write!(line, "{kind}: {operation}")?;
        if let Some(lock) = lock {
            // A connection is for many locks.
            let joint = if *operation == "connect" { " for" } else { "" };
            write!(line, "{joint} lock {lock:?}")?;
        }
        if let Some(store) = store {
            write!(line, " on {}", shortened(Cow::Borrowed(store)))?;
        }
        write!(line, ": {message}")?;
        if let Some(source) = source {
            write!(line, " ({})", shortened(source.to_string().into()))?;
        }
        Ok(())
    }
}

/// The longest part of an error, in bytes: what a server or an address put into it may have any length.
const LONGEST: usize = 400;

/// A text without its middle: what it quotes stands there, and what to do at its end.
fn shortened(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return text;
    }
    let (start, end) = (text.floor_char_boundary(LONGEST / 2), text.ceil_char_boundary(text.len() - LONGEST / 2));
    format!("{}...{}", &text[..start], &text[end..]).into()
}

/// Writes spaces for control characters, and numbers for what else cannot be seen: errors quote what others wrote, and
/// end on terminals and in logs.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (number, part) in text.split(char::is_control).enumerate() {
            if number > 0 {
                self.0.write_char(' ')?;
            }
            self.0.write_str(&name::shown(part))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

/// The result of every operation that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The place behind so many others, as the store said last: some of them may have gone since.
fn ordinal(ahead: u32) -> String {
    let place = u64::from(ahead) + 1;
    let ending = match (place % 10, place % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_says_no_more_than_is_known() {
        let said = |ahead| timed_out(Duration::from_millis(5), None, ahead).to_string();
        assert!(said(None).contains("others held it, or the store had not answered by then;"), "{}", said(None));
        assert!(said(Some(1)).contains("others hold it; this call was 2nd in line;"), "{}", said(Some(1)));
    }

    #[test]
    fn an_error_is_one_short_line_whatever_it_quotes() {
        let quoted = format!("it says {}", "x\r\n\u{1b}[2J\0".repeat(1_000));
        let error =
            Error::new(Kind::Protocol, "acquire", quoted).on_store("redis://h".repeat(1_000)).on_lock("a\u{7f}b");
        let shown = error.to_string();
        assert!(shown.len() < 1_000 && !shown.contains(char::is_control), "{shown:?}");
        assert!(shown.starts_with(r#"protocol: acquire lock "a\u{7f}b" on redis://h"#), "{shown}");
        assert!(shown.contains("...") && shown.contains(": it says x   [2J x"), "{shown}");
        assert_eq!(error.store().map(str::len), Some(9_000));
    }
}
