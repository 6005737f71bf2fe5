//! The driver: moves bytes and time for the pure rooms. Feature `net`.

pub(crate) mod clock;
pub(crate) mod companion;
pub(crate) mod convoy;
pub(crate) mod courier;
pub(crate) mod fence;
pub(crate) mod fork;
pub(crate) mod runtime;

pub(crate) mod engine;
pub(crate) mod entry;
pub(crate) mod hold;
mod line_up;
pub(crate) mod notice;
pub(crate) mod owners;
pub(crate) mod poller;
pub(crate) mod random;
pub(crate) mod road;
mod slots;
mod timer;
pub(crate) mod turnstile;
pub(crate) mod wait;
mod wheel;
