//! The driver: moves requests and time between the pure rooms and the stores. Feature `net`.

pub(crate) mod convoy;
pub(crate) mod courier;

pub(crate) mod engine;
pub(crate) mod entry;
pub(crate) mod hold;
mod line_up;
pub(crate) mod notice;
pub(crate) mod owners;
pub(crate) mod road;
pub(crate) mod turnstile;
pub(crate) mod wait;
mod wheel;
