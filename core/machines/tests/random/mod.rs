//! Numbers from a seed, and how long things take in a simulation, in nanoseconds.

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MS;

/// SplitMix64: the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn chance(&mut self, per_thousand: u64) -> bool {
        self.below(1000) < per_thousand
    }

    /// How long a message is under way: short as a rule, now and then very long.
    pub(crate) fn delay(&mut self) -> u64 {
        match self.below(100) {
            0 => self.below(3 * SECOND),
            1..5 => self.below(200 * MS),
            _ => 50_000 + self.below(2 * MS),
        }
    }

    /// The same while things go wrong; else always as short.
    pub(crate) fn delay_if(&mut self, bad: bool) -> u64 {
        if bad { self.delay() } else { 100_000 }
    }
}
