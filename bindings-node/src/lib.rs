//! The native layer of the npm package, a skin of [`lockwright::binding`]: a [`handle`] for whatever the wrapper in
//! `ts` asks something, a number for each [`guard`], [`error`] as the wrapper raises it, a [`value`] as JavaScript has
//! it; the [`reactor`] is where an environment (the main thread's, or a worker's) polls the core; [`report`] has
//! events, [`kit`] checks of fencing tokens.
//!
//! What holds everywhere here:
//! - The core is polled on the environment's own thread. What happens elsewhere rings one unreferenced threadsafe
//!   function, which calls for a turn; it carries nothing.
//! - Jobs own all they use, and own nothing of JavaScript's: a worker may be terminated at any time.
//! - What an environment leaves behind is ended by its cleanup hook: acquisitions are undone, holds are not renewed.
//! - A panic becomes an error at every entry (`catch_unwind`).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// `napi` makes symbols of what is public here, and nobody else sees it.
#![allow(missing_debug_implementations, unreachable_pub)]
// Where it builds for tests `napi` registers nothing, so that all seems unused; the tests are in JavaScript.
#![cfg_attr(test, allow(dead_code))]

mod descriptor;
mod error;
mod guard;
mod handle;
mod kit;
mod reactor;
mod report;
mod value;

use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use lockwright::binding::locked;
use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

/// The version of the native layer, which the wrapper's must be.
#[napi(catch_unwind)]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The shapes of all options.
#[napi(catch_unwind)]
pub fn options(env: &Env) -> napi::Result<Object<'_>> {
    value::object(env, lockwright::binding::manifest::options())
}

/// Every name that the wrapper must have.
#[napi(catch_unwind)]
pub fn manifest(env: &Env) -> napi::Result<Object<'_>> {
    value::object(env, lockwright::binding::manifest::manifest())
}

/// Somebody who may acquire a reentrant lock again; never the same number twice in a process.
#[napi(catch_unwind)]
pub fn new_owner() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// See the wrapper's `restored`.
#[napi(catch_unwind)]
pub fn restored() {
    lockwright::restored();
}
