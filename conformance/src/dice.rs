//! Random numbers from a seed, so that a run's choices can be had again.

/// Throws them (xorshift64*, Vigna 2016).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Of that seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed | 1)
    }

    /// The next number, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % limit
    }

    /// Puts them into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
