//! Randomness from the operating system.
//!
//! Asked for anew with each number. A stock of them would be part of this process' memory, and whoever goes on from a
//! copy of that (a snapshot of a virtual machine, a checkpoint) would give out the same once more: two holders that the
//! store takes for one. The kernel of a guest that learns of its duplication draws from a new seed.

use crate::error::{Error, Kind, Result};

/// A number that nobody else has.
pub(crate) fn number() -> Result<u128> {
    #[cfg(test)]
    if let Some(number) = super::simulated::number() {
        return Ok(number);
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = "the operating system gives no randomness";
        Error::new(Kind::Internal, "connect", message).caused_by(std::io::Error::other(error.to_string()))
    })?;
    Ok(u128::from_le_bytes(bytes))
}
