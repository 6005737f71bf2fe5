//! The driver: moves requests and time between the pure rooms and the stores. Feature `net`.

pub(crate) mod batch;
pub(crate) mod engine;
pub(crate) mod entry;
mod flusher;
pub(crate) mod hold;
mod leaving;
mod line_up;
pub(crate) mod notice;
pub(crate) mod owners;
pub(crate) mod road;
mod timer_queue;
pub(crate) mod turnstile;
pub(crate) mod wait;
