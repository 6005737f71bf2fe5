//! The driver: moves bytes and time for the pure rooms. Feature `net`.

pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod runtime;
