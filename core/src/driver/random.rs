//! Randomness from the operating system, drawn in portions: a system call for every 64 ids instead of one each.

use crate::error::{Error, Kind, Result};

const PORTION: usize = 64;

/// A stock of random numbers. Belongs to one process: an engine, and so its stock, is made anew in a forked child.
pub(crate) struct Random {
    stock: [u128; PORTION],
    left: usize,
}

impl Random {
    pub(crate) fn new() -> Result<Self> {
        let mut random = Random { stock: [0; PORTION], left: 0 };
        random.refill()?;
        Ok(random)
    }

    pub(crate) fn next(&mut self) -> Result<u128> {
        if self.left == 0 {
            self.refill()?;
        }
        self.left -= 1;
        Ok(std::mem::take(&mut self.stock[self.left]))
    }

    fn refill(&mut self) -> Result<()> {
        let mut bytes = [0; PORTION * 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            let message = "the operating system gives no randomness";
            Error::new(Kind::Internal, "connect", message).caused_by(std::io::Error::other(error.to_string()))
        })?;
        for (number, bytes) in self.stock.iter_mut().zip(bytes.as_chunks::<16>().0) {
            *number = u128::from_le_bytes(*bytes);
        }
        self.left = PORTION;
        Ok(())
    }
}
