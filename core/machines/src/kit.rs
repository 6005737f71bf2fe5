//! The guard kit: ready-made checks for what a lock protects, which refuse a holder that was stopped past its lease.
//!
//! **When to use.** Always, where what is protected can look at a number. A lease ends while its holder may be paused;
//! the fencing token is what tells its late write from that of its successor (Martin Kleppmann, *How to do distributed
//! locking*, 2016).
//!
//! **When not.** Where nothing but the lock stands between a late holder and the harm: then no library can help, and
//! the answer is short work, checks of `Guard::remaining` and a ttl with room.
//!
//! All of them admit the token that was seen last, since a holder may write more than once, and refuse lower ones.
//! Tokens of different epochs are ordered by the epoch.

use std::fmt;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::error;
use crate::name;
use crate::token::Token;

/// The highest token that something has seen: for whatever keeps its state in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence(Option<Token>);

/// The token is lower than one that was seen before: whoever shows it has lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What was shown.
    pub shown: Token,
    /// The highest seen.
    pub seen: Token,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token {} is stale: {} was seen already; its holder has lost the lock", self.shown, self.seen)
    }
}

impl std::error::Error for Stale {}

impl Fence {
    /// One that has seen nothing yet, or `highest`.
    pub const fn new(highest: Option<Token>) -> Self {
        Fence(highest)
    }

    /// Takes note of `token`, unless a higher one was seen.
    ///
    /// # Errors
    /// [`Stale`] then; nothing changes.
    pub fn admit(&mut self, token: Token) -> Result<(), Stale> {
        match self.0 {
            Some(seen) if token < seen => Err(Stale { shown: token, seen }),
            _ => {
                self.0 = Some(token);
                Ok(())
            }
        }
    }

    /// The highest token seen.
    pub fn highest(&self) -> Option<Token> {
        self.0
    }
}

/// A condition for the `WHERE` of an `UPDATE` or `DELETE`, with one placeholder for the token: rows that a higher token
/// wrote stay as they are. The same statement sets `column` to the token; that it changed no row means that the token
/// is stale (or the row is not there). `column` is a 64-bit integer that may be null; `placeholder` is the driver's,
/// such as `?` or `$3`. Both stand in the condition as they are: neither is to come from outside.
///
/// # Errors
/// `invalid_config` for a column or a placeholder that is empty, has more than 1024 bytes or a control character.
///
/// ```
/// # use lockwright_machines as lockwright;
/// let fresh = lockwright::kit::sql_condition("fence", "?2")?;
/// assert_eq!(fresh, "(fence IS NULL OR fence <= ?2)");
/// let update = format!("UPDATE account SET balance = ?1, fence = ?2 WHERE id = ?3 AND {fresh}");
/// # drop(update);
/// # Ok::<_, lockwright::error::Error>(())
/// ```
pub fn sql_condition(column: &str, placeholder: &str) -> error::Result<String> {
    for (what, given) in [("column", column), ("placeholder", placeholder)] {
        name::filled("kit", what, given, name::MAX_BYTES)?;
    }
    Ok(format!("({column} IS NULL OR {column} <= {placeholder})"))
}

/// A script for `EVAL`, with the key of the value, the key of its highest token (in the same slot) and the arguments
/// token and value: sets both and returns 1, or returns 0 where a higher token was seen. Tokens are compared as text,
/// since a script's numbers have 53 bits.
pub const SET_SCRIPT: &str = "local seen, token = redis.call('GET', KEYS[2]) or '', ARGV[1]
if #seen > #token or (#seen == #token and seen > token) then return 0 end
redis.call('SET', KEYS[2], token)
redis.call('SET', KEYS[1], ARGV[2])
return 1
";

/// The keys of etcd below `key`, which is a lock's name with the address's prefix before it: from the first of these
/// two to before the second. Whoever holds the lock, or a part of it, has a key there that was created at the revision
/// that is the token, and has it no longer than the lock. So a transaction that compares this range's
/// creation revisions with the token to be *not equal* finds them so once the lock is lost: what is to be written only
/// while it is held stands in its `else`. That is exact, where a comparison with the highest token that was seen admits
/// a late holder whom nobody has followed yet. Layout `concurrency`; etcd 3.3 or later compares ranges.
///
/// # Errors
/// `invalid_config` for what is no lock's key: empty, above 1536 bytes (a prefix and a name), or with a control
/// character. No holder ever has a key there, so that the transaction would write whoever holds what.
///
/// ```
/// # use lockwright_machines as lockwright;
/// assert_eq!(lockwright::kit::key_range("orders:42")?, ["orders:42/", "orders:420"]);
/// # Ok::<_, lockwright::error::Error>(())
/// ```
pub fn key_range(key: &str) -> error::Result<[String; 2]> {
    name::check_key(key)?;
    // The byte after a slash.
    Ok([format!("{key}/"), format!("{key}0")])
}

/// The number by which PostgreSQL knows the advisory lock of `key`, which is a lock's name with the address's prefix
/// before it: the first 64 bits of its BLAKE2b digest of that size, lowest byte first. A transaction that takes it
/// itself, by `pg_advisory_xact_lock(number)`, and the holders of that lock in layout `advisory` exclude one another;
/// it is free when the transaction ends. As sqlalchemy-dlock (0.9) has it on machines whose numbers begin with their
/// lowest byte.
///
/// # Errors
/// `invalid_config` for what is no lock's key, as for [`key_range`].
///
/// ```
/// # use lockwright_machines as lockwright;
/// assert_eq!(lockwright::kit::advisory_key("orders")?, 5_584_380_421_345_094_869);
/// # Ok::<_, lockwright::error::Error>(())
/// ```
pub fn advisory_key(key: &str) -> error::Result<i64> {
    name::check_key(key)?;
    Ok(advisory_number(key))
}

/// The same of a key that is known to be one.
pub(crate) fn advisory_number(key: &str) -> i64 {
    i64::from_le_bytes(Blake2b::<U8>::digest(key.as_bytes()).into())
}

/// The name of a request's header that carries the token.
pub const HEADER: &str = "If-Fence";

/// The value of the [header](HEADER), such as `42`, or `1.42` of a later epoch.
pub fn header_value(token: Token) -> String {
    token.to_string()
}

/// The token of a [header](HEADER); `None` for what is none. What comes without one is to be refused as well, by 428;
/// what is stale by 412.
pub fn read_header(value: &str) -> Option<Token> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    let value = value.trim_matches([' ', '\t']);
    match value.split_once('.') {
        Some((epoch, n)) => Some(Token { epoch: number(epoch)?, n: number(n)? }),
        None => number(value).map(Token::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_fence_admits_what_does_not_fall() {
        let mut fence = Fence::default();
        for n in [3, 3, 5] {
            fence.admit(Token::new(n)).unwrap();
        }
        let stale = fence.admit(Token::new(4)).unwrap_err();
        assert_eq!((stale.seen, fence.highest()), (Token::new(5), Some(Token::new(5))));
        assert!(stale.to_string().contains("lost the lock"));
        fence.admit(Token { epoch: 1, n: 1 }).unwrap();
        assert!(fence.admit(Token::new(99)).is_err());
    }

    #[test]
    fn an_advisory_key_is_what_sqlalchemy_dlock_makes_of_a_name() {
        for (name, number) in [("orders", 5584380421345094869), ("zürich", -8876762214372858569)] {
            assert_eq!(advisory_key(name).unwrap(), number);
        }
    }

    #[test]
    fn what_is_no_lock_s_key_and_no_column_is_refused() {
        let longest = "x".repeat(name::MAX_PREFIX_BYTES + name::MAX_BYTES);
        assert!(key_range(&longest).is_ok());
        assert!(advisory_key(&longest).is_ok());
        for wrong in ["", "a\0b", "a\nb", "\u{85}", &format!("{longest}x")] {
            let errors = [
                key_range(wrong).unwrap_err(),
                advisory_key(wrong).unwrap_err(),
                sql_condition(wrong, "?").unwrap_err(),
                sql_condition("fence", wrong).unwrap_err(),
            ];
            for (error, what) in errors.iter().zip(["key", "key", "column", "placeholder"]) {
                assert_eq!((error.kind(), error.operation()), (Kind::InvalidConfig, "kit"));
                assert!(error.to_string().contains(&format!("the {what} ")), "{error}");
            }
        }
    }

    #[test]
    fn a_header_is_read_back_or_refused() {
        for token in [Token::new(0), Token::new(u64::MAX), Token { epoch: 7, n: 9 }] {
            assert_eq!(read_header(&header_value(token)), Some(token));
        }
        assert_eq!(read_header(" 42 "), Some(Token::new(42)));
        for wrong in ["", "-1", "+1", "1.", ".1", "1.2.3", "0x1", "1e3", "99999999999999999999", "4 2"] {
            assert_eq!(read_header(wrong), None, "{wrong:?}");
        }
    }
}
