//! The fencing token.

use std::fmt;
use std::num::NonZeroU64;

/// A number that rises with every holder of a lock, for the protected resource to compare: it refuses whatever carries
/// a lower token than one it has already seen, so a holder that was stopped past its lease cannot write over its
/// successor.
///
/// (Martin Kleppmann, "How to do distributed locking", 2016; Chubby calls it a sequencer.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Changes only where the store's counter restarted (memcached restarted, another etcd cluster) or an operator said
    /// so; 0 where that cannot happen. Ordered before `n`.
    pub epoch: u64,
    /// The number itself.
    pub n: u64,
}

impl Token {
    /// What a guard shows whose lock is kept in a layout without tokens: lower than every token.
    pub const NONE: Token = Token::new(0);

    /// The token `n` of the first epoch.
    pub const fn new(n: u64) -> Self {
        Token { epoch: 0, n }
    }
}

/// The fencing tokens that one grant sets aside: one for its first holder, and one for each hand-off inside its
/// process. They begin at 1. A layout without tokens grants none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tokens {
    first: NonZeroU64,
    last: NonZeroU64,
}

impl Tokens {
    /// Those from `first` to `last`; `None` where these are none, because `first` is 0, or above `last`.
    pub const fn new(first: u64, last: u64) -> Option<Self> {
        match (NonZeroU64::new(first), NonZeroU64::new(last)) {
            (Some(first), Some(last)) if first.get() <= last.get() => Some(Tokens { first, last }),
            _ => None,
        }
    }

    /// Only `token`; `None` where that is 0.
    pub const fn one(token: u64) -> Option<Self> {
        Tokens::new(token, token)
    }

    /// The first holder's.
    pub const fn first(self) -> u64 {
        self.first.get()
    }

    /// The highest.
    pub const fn last(self) -> u64 {
        self.last.get()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            0 => write!(f, "{}", self.n),
            epoch => write!(f, "{epoch}.{}", self.n),
        }
    }
}
