//! The driver: moves requests and time between the machines and the stores.

pub(crate) mod batch;
pub(crate) mod engine;
mod entries;
pub(crate) mod entry;
mod flusher;
pub(crate) mod hold;
mod holder;
mod leaving;
mod lent;
mod line_up;
pub(crate) mod notice;
pub(crate) mod owners;
pub(crate) mod road;
mod timer_queue;
pub(crate) mod turnstile;
pub(crate) mod wait;
