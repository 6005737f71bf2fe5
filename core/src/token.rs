//! The fencing token.

use std::fmt;

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
    /// The token `n` of the first epoch.
    pub const fn new(n: u64) -> Self {
        Token { epoch: 0, n }
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
