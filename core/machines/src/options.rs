//! What a caller may ask of a lock and of a connection, with the defaults that every language shares.

use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroize;

use crate::error::{Error, Result};
use crate::name;
use crate::rank::Rank;
use crate::span::written;

/// The default ttl.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The longest a grant by hand-off lasts before its first renewal.
pub const CLAIM: Duration = Duration::from_secs(1);

/// The shortest ttl a lock may have.
pub const MIN_TTL: Duration = Duration::from_millis(20);

/// The longest ttl a lock may have: longer holds are what renewal is for.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// The shortest limit for the store's answers.
pub const MIN_LIMIT: Duration = Duration::from_millis(1);

/// The longest waiting time that is told apart from "for ever": a longer one given by another language is as good as
/// this.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How a lock is acquired and held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireOptions {
    /// How long to wait for other holders. `Some(0)` only tries; `None` (the default) waits for ever. Waiting for the
    /// *store* is limited separately, by [`ConnectOptions::store_timeout`].
    pub timeout: Option<Duration>,
    /// How long the lock stays ours without a renewal: 20 ms to 24 h, default 30 s. A crash frees the lock after at
    /// most this.
    pub ttl: Duration,
    /// Whether the watchdog renews the lease every ttl/3 while the guard lives; default yes.
    pub renew: bool,
    /// Ends renewal this long after the grant, so that a wedged holder cannot keep the lock for ever; default none.
    pub max_hold: Option<Duration>,
    /// However early it is released, the lock stays taken until so long after the grant, at most 24 h; default: it is
    /// free at once.
    pub at_least_for: Option<Duration>,
    /// First come, first served over all tasks of all processes; default no (then it is FIFO inside each process, and
    /// processes take turns).
    pub fair: bool,
    /// With `fair`: how urgent the acquisition is, from 0 (the default) to 9. Higher ranks are served first, and within
    /// a rank whoever came first; every 10 s of waiting count as much as one rank, so that nobody waits for ever.
    pub rank: u8,
    /// Whether the same owner may acquire it again while holding it; default no.
    pub reentrant: bool,
    /// Whether its holder listens for others who ask for the lock back, which costs a request more at each acquisition;
    /// default no.
    pub revocable: bool,
    /// The layout at the store; `None` takes the store's default.
    pub layout: Option<Arc<str>>,
    /// The format of a layout that has several, such as the library whose locks are joined; `None` elsewhere.
    pub format: Option<Arc<str>>,
    /// A text of at most 128 bytes that others read with `inspect`.
    pub label: Option<Arc<str>>,
    /// How often a waiter asks where it cannot be told that it is its turn.
    pub retry: Retry,
}

/// The pauses between two tries of a waiter: the first is `min`, each is twice the one before, none is longer than
/// `max`. Each is up to an eighth shorter by chance, and ends early when the holder's lease does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// The first pause, from 1 ms; default 2 ms.
    pub min: Duration,
    /// The longest pause, from `min` to ten years; default 64 ms.
    pub max: Duration,
}

impl Retry {
    /// What holds where nothing else is said.
    pub const DEFAULT: Retry = Retry { min: Duration::from_millis(2), max: Duration::from_millis(64) };
}

impl Default for Retry {
    fn default() -> Self {
        Retry::DEFAULT
    }
}

impl Default for AcquireOptions {
    fn default() -> Self {
        AcquireOptions {
            timeout: None,
            ttl: DEFAULT_TTL,
            renew: true,
            max_hold: None,
            at_least_for: None,
            fair: false,
            rank: 0,
            reentrant: false,
            revocable: false,
            layout: None,
            format: None,
            label: None,
            retry: Retry::DEFAULT,
        }
    }
}

impl AcquireOptions {
    /// Says whether these options can be honoured at all.
    ///
    /// # Errors
    /// `invalid_config` for a value out of range, `unsupported` for what is not built.
    pub fn check(&self) -> Result<()> {
        if self.ttl < MIN_TTL || self.ttl > MAX_TTL {
            return Err(Error::invalid(
                "lock",
                format!("ttl is {}; it must be {} to {}", written(self.ttl), written(MIN_TTL), written(MAX_TTL)),
            ));
        }
        if self.max_hold.is_some_and(|max| max < self.ttl) {
            return Err(Error::invalid(
                "lock",
                "max_hold is shorter than ttl; make it at least the ttl, or leave it out",
            ));
        }
        if self.at_least_for.is_some_and(|least| least > MAX_TTL) {
            let message =
                format!("at_least_for is {:?}; it must be at most {MAX_TTL:?}", self.at_least_for.unwrap_or_default());
            return Err(Error::invalid("lock", message));
        }
        if self.max_hold.is_some() && !self.renew {
            return Err(Error::invalid("lock", "max_hold limits renewal, but renew is off; drop one of the two"));
        }
        if let Some(label) = &self.label {
            name::check_label(label)?;
        }
        if Rank::new(self.rank).is_none() {
            let message = format!("rank is {}; it must be 0 to {}", self.rank, Rank::HIGHEST.get());
            return Err(Error::invalid("lock", message));
        }
        if self.rank > 0 && !self.fair {
            return Err(Error::invalid(
                "lock",
                "rank orders who asks for fair; ask for fair, too, or leave the rank out",
            ));
        }
        let Retry { min, max } = self.retry;
        if min < MIN_LIMIT || max < min || max > MAX_TIMEOUT {
            let message =
                format!("retry is {min:?} to {max:?}; both must be {MIN_LIMIT:?} to ten years, in this order");
            return Err(Error::invalid("lock", message));
        }
        Ok(())
    }

    /// How long a pushed grant of this lock lasts until its first renewal.
    pub fn claim(&self) -> Duration {
        self.ttl.min(CLAIM)
    }

    /// Sets the layout. The format that goes with another one is dropped.
    pub fn set_layout(&mut self, layout: &str) {
        if self.layout.as_deref() != Some(layout) {
            self.layout = Some(layout.into());
            self.format = None;
        }
    }

    /// Whether the caller only tries.
    pub fn tries(&self) -> bool {
        self.timeout == Some(Duration::ZERO)
    }
}

/// A number of seconds from another language, as a duration; of ten years at most, which longer ones are cut to.
///
/// # Errors
/// `invalid_config` when it is negative, no number, or larger than any time.
pub fn seconds(operation: &'static str, what: &str, value: f64) -> Result<Duration> {
    span(operation, what, value, "seconds", 1)
}

/// A number of milliseconds from another language, as a duration.
///
/// # Errors
/// As [`seconds`].
pub fn milliseconds(operation: &'static str, what: &str, value: f64) -> Result<Duration> {
    span(operation, what, value, "ms", 1_000)
}

fn span(operation: &'static str, what: &str, value: f64, unit: &str, a_second: u32) -> Result<Duration> {
    match Duration::try_from_secs_f64(value / f64::from(a_second)) {
        Ok(duration) => Ok(duration.min(MAX_TIMEOUT)),
        Err(_) => {
            let most = MAX_TIMEOUT.as_secs() * u64::from(a_second);
            let message = format!("{what} is {value:?} {unit}; it must be a number from 0 to {most} (ten years)");
            Err(Error::invalid(operation, message))
        }
    }
}

/// How a client reaches its store.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Put before every lock name, so that applications can share a store; default empty.
    pub prefix: String,
    /// Limit for making one connection; default 2 s.
    pub connect_timeout: Duration,
    /// Limit for one reply; after it the request's outcome is unknown and it is asked again; default 1 s.
    pub response_timeout: Duration,
    /// How long an operation goes on asking a store that does not answer before it fails with `unavailable`; default 5
    /// s.
    pub store_timeout: Duration,
    /// A file of certificates (PEM) to trust instead of the system's.
    pub ca: Option<String>,
    /// The client's certificate chain (PEM file), with `key`.
    pub cert: Option<String>,
    /// The client's private key (PEM file), with `cert`.
    pub key: Option<String>,
    /// Asked for user and password at every new connection, so that rotated credentials are taken up.
    pub credentials: Option<CredentialsSource>,
    /// The language shown on holder cards; set by each face.
    pub language: &'static str,
}

impl ConnectOptions {
    /// Says whether these options can be honoured at all.
    ///
    /// # Errors
    /// `invalid_config` for a value out of range.
    pub fn check(&self) -> Result<()> {
        let limits = [
            ("connect_timeout", self.connect_timeout),
            ("response_timeout", self.response_timeout),
            ("store_timeout", self.store_timeout),
        ];
        if let Some((what, _)) = limits.iter().find(|(_, limit)| *limit < MIN_LIMIT || *limit > MAX_TIMEOUT) {
            return Err(Error::invalid("connect", format!("{what} must be {MIN_LIMIT:?} to ten years")));
        }
        name::check_prefix(&self.prefix)
    }
}

/// Says whether an observer, such as one of an election, may wait so long between two looks.
///
/// # Errors
/// `invalid_config` for less than 1 ms and more than 24 h.
pub fn check_every(every: Duration) -> Result<()> {
    if every < Duration::from_millis(1) || every > MAX_TTL {
        return Err(Error::invalid("changed", format!("every is {every:?}; it must be 1 ms to 24 h")));
    }
    Ok(())
}

/// Gives user and password for a connection that is about to be made, or says why it cannot: then the connection fails
/// with `auth`, and the error names the cause. It may block, up to `connect_timeout`: it is called in the caller's
/// thread, or in one of its own where the caller is a task or the background.
pub type CredentialsSource =
    Arc<dyn Fn() -> std::result::Result<Credentials, Box<dyn std::error::Error + Send + Sync>> + Send + Sync>;

/// A user and a password, which are wiped from memory when this is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user; empty for the store's default user.
    pub user: String,
    /// The password; empty for none.
    pub password: String,
}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.user.zeroize();
        self.password.zeroize();
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, ***)", self.user)
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            prefix: String::new(),
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(1),
            store_timeout: Duration::from_secs(5),
            ca: None,
            cert: None,
            key: None,
            credentials: None,
            language: "rust",
        }
    }
}

impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("response_timeout", &self.response_timeout)
            .field("store_timeout", &self.store_timeout)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observer_looks_every_millisecond_at_the_most_and_every_day_at_the_least() {
        let ms = Duration::from_millis(1);
        for (every, is_fine) in
            [(Duration::ZERO, false), (ms / 2, false), (ms, true), (MAX_TTL, true), (MAX_TTL + ms, false)]
        {
            assert_eq!(check_every(every).is_ok(), is_fine, "{every:?}");
        }
    }

    #[test]
    fn a_span_is_what_the_language_counts() {
        assert_eq!(seconds("lock", "ttl", 0.02).unwrap(), MIN_TTL);
        assert_eq!(milliseconds("lock", "ttl", 20.0).unwrap(), MIN_TTL);
        assert_eq!(milliseconds("lock", "ttl", 315_360_000_000.0).unwrap(), MAX_TIMEOUT);
        // What `threading` and `setTimeout` count as the longest, and what an option of another unit may make of it.
        for long in [9_223_372_036.0, 315_360_001.0, 1e18] {
            assert_eq!(seconds("acquire", "timeout", long).unwrap(), MAX_TIMEOUT);
        }
        for (unit, error) in [
            ("-1.0 seconds; it must be a number from 0 to 315360000 ", seconds("lock", "ttl", -1.0)),
            ("-1.0 ms; it must be a number from 0 to 315360000000 ", milliseconds("lock", "ttl", -1.0)),
            ("NaN ms", milliseconds("lock", "ttl", f64::NAN)),
            ("1e300 ms", milliseconds("lock", "ttl", 1e300)),
        ] {
            let said = error.unwrap_err().to_string();
            assert!(said.contains(unit) && said.contains("invalid_config: lock: ttl is "), "{said}");
        }
    }
}
